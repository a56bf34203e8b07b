// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/assignment"
	"github.com/trellis-k8s/trellis/internal/gang"
	gates "github.com/trellis-k8s/trellis/internal/provider/gates/placer"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// creating is a bench whose groups ask for places, and whose decisions are recorded.
type creating struct {
	*bench
	asks *Asks
	// told are the groups that were reconciled for an answer.
	told map[string]bool
	// records are those of the graphs, by name.
	records map[string]*assignment.Record
}

func newCreating(t *testing.T) *creating {
	w := &creating{told: map[string]bool{}, records: map[string]*assignment.Record{}}
	w.asks = NewAsks(func(group types.NamespacedName) { w.told[group.Name] = true })
	w.bench = newBench(t, Options{Asks: w.asks})
	return w
}

// planned is a graph of one replica of so many pods in one rack, of which nothing exists.
func planned(number int, pods int32) gang.Observation {
	o := asking(number, pods, 0)
	o.Pods = nil
	return o
}

// plannedBase is a graph in one rack with two components of a replica with so many pods each.
func plannedBase(pods int32) gang.Observation {
	o := planned(1, pods)
	o.Groups = nil
	for _, component := range []string{"decode", "prefill"} {
		sg := newGroup(component, 1, pods, frozen("rack", ""))
		sg.Spec.Graph = o.DGD.Name
		o.Groups = append(o.Groups, sg)
	}
	return o
}

// ask asks for all replicas of groups, which have so few pods.
func (w *creating) ask(groups ...*trellisv1alpha1.ScalingGroup) map[string]string {
	answers := map[string]string{}
	for _, sg := range groups {
		for ordinal, answer := range w.asks.Ask(sg, wantsOf(sg, sg.Spec.Replicas, 0), nil) {
			answers[fmt.Sprintf("%s-%d", sg.Spec.Component, ordinal)] = w.inWords(sg, ordinal, answer)
		}
	}
	return answers
}

func wantsOf(sg *trellisv1alpha1.ScalingGroup, replicas, priority int32) []Want {
	var wants []Want
	for ordinal := range replicas {
		wants = append(wants, Want{Ordinal: ordinal, Pods: func() []*corev1.Pod {
			var pods []*corev1.Pod
			for index := range render.PodsPerReplica(sg) {
				pod := withGPU(render.BuildPod(sg, ordinal, index))
				pod.Spec.Priority = ptr.To(priority)
				gang.AsPlanned(pod, sg)
				pods = append(pods, pod)
			}
			return pods
		}})
	}
	return wants
}

// inWords is an answer, with the recorded rack and the attempt if that is not the first.
func (w *creating) inWords(sg *trellisv1alpha1.ScalingGroup, ordinal int32, answer Answer) string {
	switch {
	case answer.Gated:
		return "gated"
	case answer.Attempt == 0:
		return "wait"
	}
	_, place, _ := w.records[sg.Spec.Graph].Replicas(sg.Spec.Component).Assigned(ordinal)
	words := fmt.Sprintf("%d pods in %s", len(place.Hosts), place.Domain[len(place.Domain)-1])
	if place.Attempt != answer.Attempt {
		words = fmt.Sprintf("attempt %d, recorded is %d", answer.Attempt, place.Attempt)
	} else if answer.Attempt > 1 {
		words += fmt.Sprintf(" (%d.)", answer.Attempt)
	}
	return words
}

// look has a graph looked at, as the loop does.
func (w *creating) look(o gang.Observation) decision {
	name := o.DGD.Name
	if w.records[name] == nil {
		w.records[name] = &assignment.Record{}
	}
	o.Record = w.records[name]
	d := w.decide(o)
	if d.record != nil {
		w.records[name] = d.record
	}
	w.s.ledger.carriedOut(&d, w.records[name])
	w.s.writers.answer(w.t.Context(), o.DGD, &d)
	return d
}

// create creates the pods of a first replica as recorded.
func (w *creating) create(sg *trellisv1alpha1.ScalingGroup) (pods []*corev1.Pod) {
	w.t.Helper()
	return w.createOrdinal(sg, 0)
}

func (w *creating) createOrdinal(sg *trellisv1alpha1.ScalingGroup, ordinal int32) (pods []*corev1.Pod) {
	w.t.Helper()
	answer := w.asks.Ask(sg, wantsOf(sg, max(1, sg.Spec.Replicas), 0), nil)[ordinal]
	name, place, assigned := w.records[sg.Spec.Graph].Replicas(sg.Spec.Component).Assigned(ordinal)
	if !assigned || !w.asks.Begin(sg, ordinal, place.Attempt) {
		w.t.Fatalf("group %s has the answer %+v, recorded is %+v", sg.Name, answer, place)
	}
	for index, planned := range answer.Pods {
		pod := planned.DeepCopy()
		pin, _ := gang.RecordedPin(sg, name, place, int32(index))
		gates.Placer{}.Pin(pod, pin)
		pod.UID = types.UID(fmt.Sprintf("made-%d-%s", place.Attempt, pod.Name))
		pods = append(pods, pod)
	}
	return pods
}

// see has the loop see pods.
func (w *creating) see(pods []*corev1.Pod) []*corev1.Pod {
	for _, pod := range pods {
		w.s.ledger.podChanged(pod)
	}
	return pods
}

// reserved are the reservations by host, each by the name of its pod if that does not exist.
func (w *creating) reserved() map[string]string {
	out := map[string]string{}
	w.s.ledger.cluster.Reservations(func(id, node string, _ *topology.Shape) {
		name := id[strings.LastIndex(id, "/")+1:]
		if !strings.HasPrefix(id, "planned/") {
			name = "made"
		}
		out[node] = name
	})
	return out
}

// TestReplacedReplicaReturns: a replica that ran in a rack, was placed there again, and is replaced before the record shows its pods as
// bound, is planned in that rack once more.
func TestReplacedReplicaReturns(t *testing.T) {
	w := newCreating(t)
	o := planned(2, 1)
	o.Groups[0].Spec.Topology = frozen("zone", "")
	key, rack := assignment.Key{Component: o.Groups[0].Spec.Component}, topology.Path{"z", "b"}
	r := (&assignment.Record{}).Clone()
	r.Bound[key] = assignment.Place{Attempt: 1, Domain: rack}
	r.Assign("again", key, rack, []string{"b0"}, w.clock.Now())
	w.records["g2"] = r
	for index, pod := range wantsOf(o.Groups[0], 1, 0)[0].Pods() {
		pin, _ := gang.RecordedPin(o.Groups[0], "again", r.Gangs["again"].Places[key], int32(index))
		gates.Placer{}.Pin(pod, pin)
		w.asks.End(o.Groups[0], pod)
	}
	w.ask(o.Groups[0])
	w.look(o)
	if got := w.ask(o.Groups[0])["work-0"]; got != "1 pods in b (3.)" {
		t.Errorf("it is created: %s", got)
	}
}
