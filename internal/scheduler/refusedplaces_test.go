// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/provider"
	"github.com/trellis-k8s/trellis/internal/render"
)

// picky is a kube-scheduler that refuses pods for a reason that Trellis does not count, and the loop around it.
type picky struct {
	*bench
	all    graphs
	placer *objecting
	// refuses explains why a rack, or a host that the pods are pinned to, takes no pod; "" when it does.
	refuses func(place string) string
	// byLabels: the pods are pinned by labels alone, as an earlier version of the operator released them.
	byLabels bool
	// log has a line for each release, and for each new reason to wait, with the time since the beginning.
	log []string
}

func newPicky(t *testing.T, refuses func(string) string) *picky {
	options := Options{RequeueAfter: 30 * time.Second, ReserveDomainAfter: 10 * time.Second, ReserveDomainFor: time.Hour, ReserveShare: 1}
	p := &picky{bench: newBench(t, options), placer: &objecting{}, all: graphs{}, refuses: refuses}
	p.s.objects.reader, p.s.providers = p.all, provider.New(provider.Options{}, provider.All{Placers: []provider.Placer{p.placer}})
	return p
}

// live has a graph planned, released and evicted, from one look that it asks for to the next, until it is bound or a time is over.
func (p *picky) live(fresh func() gang.Observation, until time.Duration) {
	for p.clock.Since(begin) < until {
		o := fresh()
		p.all[o.DGD.Name] = o
		d := p.decide(o)
		if len(d.releases) == 0 {
			p.note("waits: " + d.result.Waiting[0].Code + " " + d.result.Waiting[0].Message)
			if due, next := p.s.queue.take(p.clock.Now()); len(due) == 0 {
				p.pass(next)
			}
			continue
		}
		if p.bind(&o, d.releases) {
			return
		}
		p.pass(30 * time.Second)
		if !p.s.requeueStuck(p.t.Context(), o) {
			p.t.Fatalf("not requeued after %s", p.clock.Since(begin))
		}
		for _, pod := range o.Pods {
			p.s.podGone(pod)
		}
	}
}

func (p *picky) note(what string) {
	if len(p.log) == 0 || !strings.HasSuffix(p.log[len(p.log)-1], what) {
		p.log = append(p.log, fmt.Sprintf("%s %s", p.clock.Since(begin), what))
	}
}

// bind shows the released pods to the loop, as the kube-scheduler leaves them: all bound, or with the reason that it refuses them for.
func (p *picky) bind(o *gang.Observation, releases []gang.Release) bool {
	places, refused := map[string]bool{}, false
	o.Pods = nil
	for _, r := range releases {
		if p.byLabels {
			r.Pin.Node = ""
		}
		pod := pinned(r)
		place := pod.Spec.NodeSelector["r"]
		if r.Pin.Node != "" {
			place = r.Pin.Node
		}
		places[place] = true
		why := p.refuses(place)
		if refused = refused || why != ""; why != "" {
			pod.Status.Conditions = []corev1.PodCondition{{
				Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: why,
			}}
		}
		p.track(pod)
		o.Pods = append(o.Pods, pod)
	}
	where := strings.Join(slices.Sorted(maps.Keys(places)), " ")
	if refused {
		p.note("in " + where)
		return false
	}
	p.note("bound in " + where)
	return true
}

// pinned is a pod with the pins of its release.
func pinned(r gang.Release) *corev1.Pod {
	pod := r.Pod.DeepCopy()
	pod.Spec.SchedulingGates, pod.Spec.NodeSelector = nil, r.Pin.Labels
	pod.Annotations = map[string]string{render.AnnotationGang: r.Pin.Gang}
	if r.Pin.Node != "" {
		pod.Spec.Affinity = onlyOn(r.Pin.Node)
	}
	return pod
}

const noDevice = "0/4 nodes are available: 4 cannot allocate all claims"

func everywhere(string) string { return noDevice }

// A scheduler refuses a gang wherever it has capacity. It is tried in one rack after the other, at growing intervals, and while both are left out it
// waits and says, rack by rack, what the scheduler said.
func TestRefusedGangsGoElsewhere(t *testing.T) {
	p := newPicky(t, everywhere)
	p.live(func() gang.Observation { return asking(1, 2, 0) }, 9*time.Minute)
	want := []string{
		"0s in a0 a1",
		"30s waits: Requeued g1-work-0-1 could not be bound: " + noDevice + "; left out for such pods: z/a",
		"31s in b0 b1",
		"1m1s waits: Requeued g1-work-0-1 could not be bound: " + noDevice + "; left out for such pods: z/b",
		"1m3s in a0 a1",
		"1m33s waits: Requeued g1-work-0-1 could not be bound: " + noDevice + "; left out for such pods: z/a",
		"1m37s in b0 b1",
		"2m7s waits: Requeued g1-work-0-1 could not be bound: " + noDevice + "; left out for such pods: z/b",
		"2m15s waits: RefusedEverywhere it has capacity only where a scheduler refused it, in z/a, z/b: z/a (left out until " + at(165) + "): " + noDevice +
			"; z/b (left out until " + at(211) + "): " + noDevice,
		"2m45s in a0 a1",
	}
	if diff := cmp.Diff(want, p.log[:min(len(p.log), len(want))]); diff != "" {
		t.Errorf("the sequence of places (-want +got):\n%s", diff)
	}
	var tries []string
	for _, line := range p.log {
		if at, place, tried := strings.Cut(line, " in "); tried && !strings.Contains(at, " ") {
			tries = append(tries, place)
		}
	}
	if diff := cmp.Diff(slices.Repeat([]string{"a0 a1", "b0 b1"}, 4), tries); diff != "" {
		t.Errorf("places that were tried in 9 minutes (-want +got):\n%s", diff)
	}
	if n := p.s.ledger.placesLeftOut(begin.Add(9 * time.Minute)); n != 2 {
		t.Errorf("%d places are left out, want 2", n)
	}
	p.s.forgetGraph(types.NamespacedName{Namespace: "ns", Name: "g1"})
	if len(p.s.ledger.refused.places) > 0 {
		t.Error("a graph that is gone has refusals")
	}
}

// However long it lasts, and however long the pauses of the graph become: from the second round on the gang is never tried again without having said
// in between that it is refused everywhere.
func TestRefusedEverywhereIsSaidInEachRound(t *testing.T) {
	p := newPicky(t, everywhere)
	p.live(func() gang.Observation { return asking(1, 2, 0) }, 12*time.Hour)
	said, tries := false, 0
	for _, line := range p.log {
		said = said || strings.Contains(line, gang.CodeRefusedEverywhere)
		if !strings.HasSuffix(line, " in a0 a1") {
			continue
		}
		if tries++; tries > 2 && !said {
			t.Fatalf("%s: it is tried again, and never said so since:\n%s", line, strings.Join(p.log, "\n"))
		}
		said = false
	}
	if tries < 8 {
		t.Errorf("%d rounds:\n%s", tries, strings.Join(p.log, "\n"))
	}
}

// at is a time so many seconds after the beginning, as messages have it.
func at(seconds int) string {
	return begin.Add(time.Duration(seconds) * time.Second).UTC().Format(time.RFC3339)
}

// What is learnt of one graph's pods says nothing about pods of another shape, or of another graph.
func TestRefusalsAreOfAShape(t *testing.T) {
	p := newPicky(t, func(place string) string {
		if strings.HasPrefix(place, "a") {
			return noDevice
		}
		return ""
	})
	p.live(func() gang.Observation { return asking(1, 2, 0) }, time.Minute)
	if last := p.log[len(p.log)-1]; last != "31s bound in b0 b1" {
		t.Errorf("%s, want rack b", last)
	}
	p.expect("another graph", asking(2, 2, 0), "rack a")
	changed := asking(1, 2, 0)
	for _, pod := range changed.Pods {
		pod.Spec.Tolerations = []corev1.Toleration{{Key: "new"}}
	}
	p.s.ledger.cluster.Forget("g2-work-0-0")
	p.s.ledger.cluster.Forget("g2-work-0-1")
	p.expect("the same graph with other pods", changed, "rack a")
}

// A scheduler refuses a gang of one pod one host at a time. After the third one of a rack the rest of the rack is left out, however many hosts it
// has.
func TestRefusedHostsBecomeADomain(t *testing.T) {
	for _, hosts := range []int{8, 40} {
		t.Run(fmt.Sprint(hosts, " hosts"), func(t *testing.T) { refusedInRackA(t, hosts) })
	}
}

func refusedInRackA(t *testing.T, hosts int) {
	p := newPicky(t, func(place string) string {
		if strings.HasPrefix(place, "a") {
			return noDevice
		}
		return ""
	})
	for i := range hosts {
		p.host(fmt.Sprintf("a%02d", i), "a", 1)
	}
	for i := range hosts + 1 {
		p.host(fmt.Sprintf("b%02d", i), "b", 1)
	}
	p.live(claiming, 10*time.Minute)
	var tries []string
	for _, line := range p.log {
		if !strings.Contains(line, "waits") {
			tries = append(tries, line[strings.LastIndex(line, " ")+1:])
		}
	}
	if diff := cmp.Diff([]string{"a0", "a00", "a01", "b0"}, tries); diff != "" {
		t.Errorf("hosts that were tried (-want +got):\n%s\n%s", diff, strings.Join(p.log, "\n"))
	}
}

// By count there is no capacity, whatever a scheduler refused: that is what the gang waits for.
func TestRefusalsDoNotHideAShortage(t *testing.T) {
	p := newPicky(t, everywhere)
	p.live(func() gang.Observation { return asking(1, 2, 0) }, 10*time.Second)
	p.taken("a0", "b0")
	p.pass(time.Second)
	p.expect("a host of each rack is taken", asking(1, 2, 0), "z/a holds 1 of 2")
}

// A gang that waits only for places that a scheduler refused it in gets no domain reservation, however long it waits: the hosts would serve no one.
func TestNoDomainIsReservedForARefusedGang(t *testing.T) {
	p := newPicky(t, everywhere)
	p.live(func() gang.Observation { return asking(1, 2, 0) }, time.Minute)
	list := p.s.ledger.refused.places[types.NamespacedName{Namespace: "ns", Name: "g1"}]
	for i := range list {
		list[i].Until = p.clock.Now().Add(time.Hour)
	}
	for range 4 {
		p.pass(11 * time.Second)
		p.expect("both racks are left out", asking(1, 2, 0), "it has capacity only where a scheduler refused it")
	}
	if p.s.ledger.reserver.current != nil {
		t.Errorf("reserved: %+v", p.s.ledger.reserver.current)
	}
}
