// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	testingclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/provider"
	gates "github.com/trellis-k8s/trellis/internal/provider/gates/placer"
	"github.com/trellis-k8s/trellis/internal/topology"
)

var begin = time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)

// bench is a loop without a cluster behind it, on two racks of two hosts.
type bench struct {
	t     testing.TB
	s     *Scheduler
	clock *testingclock.FakeClock
	said  *events.FakeRecorder
}

func newBench(t testing.TB, o Options) *bench {
	b := &bench{t: t, clock: testingclock.NewFakeClock(begin), said: events.NewFakeRecorder(100)}
	o.Clock = b.clock
	b.s = New(nil, provider.New(provider.Options{}, provider.All{Placers: []provider.Placer{gates.Placer{}}}), b.said, NewResults(func(types.NamespacedName) {}), o)
	for _, name := range []string{"a0", "a1", "b0", "b1"} {
		b.host(name, name[:1], 1)
	}
	return b
}

// host adds a host with so many GPUs to a rack.
func (b *bench) host(name, rack string, gpus int) {
	b.s.ledger.cluster.SetNode(hostOf(name, rack, gpus))
}

func hostOf(name, rack string, gpus int) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"z": "z", "r": rack, "pool": "p", corev1.LabelHostname: name}},
		Status: corev1.NodeStatus{
			Conditions:  []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
			Allocatable: corev1.ResourceList{"gpu": *resource.NewQuantity(int64(gpus), resource.DecimalSI), corev1.ResourcePods: resource.MustParse("10")},
		},
	}
}

// taken binds a pod of another client to a host.
func (b *bench) taken(hosts ...string) {
	for _, host := range hosts {
		pod := withGPU(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: host, UID: types.UID("on-" + host)}})
		pod.Spec.NodeName = host
		b.s.ledger.cluster.SetPod(pod)
	}
}

func (b *bench) freed(host string) { b.s.ledger.cluster.DeletePod("on-" + host) }

func withGPU(pod *corev1.Pod) *corev1.Pod {
	pod.Spec.Containers = []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"gpu": resource.MustParse("1")}}}}
	return pod
}

// asking is a graph of one replica of so many pods, each a host, in one rack. A number names it and makes it the older the lower it is.
func asking(number int, pods, priority int32) gang.Observation {
	sg := newGroup("work", 1, pods, frozen("", "rack"))
	sg.Name, sg.UID, sg.Spec.Graph = fmt.Sprintf("g%d-work", number), types.UID(fmt.Sprint("sg", number)), fmt.Sprintf("g%d", number)
	o := gang.Observation{
		DGD: &nvidiav1beta1.DynamoGraphDeployment{ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: sg.Spec.Graph, UID: types.UID(fmt.Sprint("g", number)), CreationTimestamp: metav1.Time{Time: begin.Add(time.Duration(number) * time.Minute)},
		}},
		Groups: []*trellisv1alpha1.ScalingGroup{sg}, ClusterTopology: hall,
	}
	for i := range pods {
		pod := withGPU(newPod(sg, 0, i))
		pod.Spec.Priority = ptr.To(priority)
		o.Pods = append(o.Pods, pod)
	}
	return o
}

// ask has a graph planned and returns where it went, or why it waits.
func (b *bench) ask(o gang.Observation) string {
	b.t.Helper()
	d := b.decide(o)
	releases, result := d.releases, d.result
	if len(result.Waiting) > 0 {
		return result.Waiting[0].Message
	}
	if len(releases) != len(o.Pods) {
		b.t.Fatalf("%d of %d pods released", len(releases), len(o.Pods))
	}
	return "rack " + releases[0].Pin.Labels["r"]
}

// decide has a graph decided about, and does what the loop does with the decision.
func (b *bench) decide(o gang.Observation) decision {
	e := b.s.ledger.evaluate(clientKey(o))
	e.decide(b.t.Context(), o)
	b.s.queue.wakeUp(e.d.wake)
	b.s.report(o.DGD, e.d.events)
	return *e.d
}

// track delivers a pod's state to the records of released pods, and nothing else.
func (b *bench) track(pod *corev1.Pod) {
	b.s.ledger.pods.follow(pod, topology.PodID(pod), b.clock.Now())
}

// count counts the records of released pods that are so.
func (b *bench) count(so func(r *released) bool) (n int) {
	for _, r := range b.s.ledger.pods.byID {
		if so(r) {
			n++
		}
	}
	return n
}

// releasing are the pods whose release is under way.
func (b *bench) releasing() int { return b.count(func(r *released) bool { return r.releasing }) }

func (b *bench) preempts() int { return b.count(func(r *released) bool { return r.preempting }) }

func (b *bench) expect(what string, o gang.Observation, want string) {
	b.t.Helper()
	if got := b.ask(o); !strings.Contains(got, want) {
		b.t.Errorf("%s: %q, want %q", what, got, want)
	}
}

func (b *bench) pass(d time.Duration) {
	b.clock.Step(d)
	b.s.expireHolds()
}

// A gang of two hosts waits. Single hosts become free one after the other and small graphs take each of them, until the gang has waited
// for its time: then one rack is reserved for it.
func TestReservesADomainForALargeGang(t *testing.T) {
	b := newBench(t, Options{ReserveDomainAfter: time.Minute, ReserveDomainFor: 10 * time.Minute, ReserveShare: 0.5})
	b.taken("a0", "a1", "b0", "b1")
	big := asking(5, 2, 0)
	b.expect("nothing is free", big, "holds 0 of 2")
	b.freed("a0")
	b.expect("a newcomer before the time", asking(6, 1, 0), "rack a")
	b.pass(time.Minute)
	b.expect("after the time", big, "; 2 hosts in z/a are reserved for it until 03:11 UTC")
	b.freed("a1")
	b.expect("a newcomer now", asking(7, 1, 0), "2 hosts reserved for ns/g5")
	b.freed("b0")
	b.expect("a newcomer elsewhere", asking(8, 1, 0), "rack b")
	b.expect("an older one", asking(4, 1, 0), "rack a")
	b.s.ledger.cluster.Forget("g4-work-0")
	b.expect("a more important one", asking(9, 1, 1), "rack a")
	b.s.ledger.cluster.Forget("g9-work-0")
	lost := asking(10, 1, 0)
	lost.Record = formerlyAt("z", "a")
	b.expect("one that was there before", lost, "rack a")
	b.s.ledger.cluster.Forget("g10-work-0")
	b.s.ledger.cluster.Forget("g6-work-0")
	b.expect("both hosts are free", big, "rack a")
	if b.s.ledger.reserver.current != nil {
		t.Error("the rack is still reserved although the gang is placed")
	}
	b.s.ledger.cluster.Forget("g5-work-0-0")
	b.expect("a newcomer after that", asking(11, 1, 0), "rack a")
	if said := <-b.said.Events; !strings.Contains(said, "2 hosts in z/a are reserved until 03:11 UTC for a gang that has been waiting for 1m0s") {
		t.Error(said)
	}
}

func TestDomainReservationEnds(t *testing.T) {
	for name, end := range map[string]func(b *bench){
		"by time":        func(b *bench) { b.pass(10 * time.Minute) },
		"with the graph": func(b *bench) { b.s.forgetGraph(types.NamespacedName{Namespace: "ns", Name: "g5"}) },
		"when it does not want it more": func(b *bench) {
			o := asking(5, 2, 0)
			o.Groups[0].Spec.Replicas, o.Pods = 0, nil
			b.decide(o)
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, Options{ReserveDomainAfter: time.Minute, ReserveDomainFor: 10 * time.Minute, ReserveShare: 0.5})
			b.taken("a0", "b0", "b1")
			b.ask(asking(5, 2, 0))
			b.pass(time.Minute)
			b.expect("reserved", asking(5, 2, 0), "2 hosts in z/a are reserved for it")
			b.expect("a newcomer", asking(6, 1, 0), "reserved for ns/g5")
			end(b)
			b.expect("a newcomer after that", asking(6, 1, 0), "rack a")
		})
	}
}

func TestReservesNoDomain(t *testing.T) {
	for name, tc := range map[string]struct {
		options Options
		graph   gang.Observation
	}{
		"when not asked for":                {Options{ReserveShare: 1}, asking(5, 2, 0)},
		"when turned off":                   {Options{ReserveDomainAfter: -1, ReserveShare: 1}, asking(5, 2, 0)},
		"when no domain is ever big enough": {Options{ReserveDomainAfter: time.Minute, ReserveShare: 1}, asking(5, 3, 0)},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, tc.options)
			b.taken("a0", "b0", "b1")
			for _, later := range []time.Duration{0, time.Minute, time.Hour} {
				b.pass(later)
				if got := b.ask(tc.graph); strings.Contains(got, "reserved") || b.s.ledger.reserver.current != nil {
					t.Error(got)
				}
			}
			b.expect("a newcomer", asking(6, 1, 0), "rack a")
		})
	}
}

// A second gang does not get a domain too while one is reserved: a queue of large gangs must not close the cluster.
func TestReservesOneDomainAtATime(t *testing.T) {
	b := newBench(t, Options{ReserveDomainAfter: time.Minute, ReserveDomainFor: 10 * time.Minute, ReserveShare: 0.5})
	b.taken("a0", "b0")
	first, second := asking(5, 2, 0), of("team-b", asking(6, 2, 0))
	b.ask(first)
	b.ask(second)
	b.pass(time.Minute)
	b.expect("the first", first, "z/a are reserved for it")
	b.notReserved("the second", second)
	b.pass(10 * time.Minute)
	b.expect("the second, when the first has had its time", second, "are reserved for it")
	b.notReserved("the first", first)
}

// of moves a graph to another namespace.
func of(namespace string, o gang.Observation) gang.Observation {
	o.DGD.Namespace = namespace
	for _, sg := range o.Groups {
		sg.Namespace = namespace
	}
	for _, pod := range o.Pods {
		pod.Namespace = namespace
	}
	return o
}

func (b *bench) notReserved(what string, o gang.Observation) {
	b.t.Helper()
	if got := b.ask(o); strings.Contains(got, "reserved for it until") {
		b.t.Errorf("%s: %s", what, got)
	}
}

// Priority is that of the least important pod that waits, and a class that never preempts asks no one to leave.
// What a replica was preempted for is not held for it; its other pods, which go with it, do not hold theirs either.
func TestPreemptedCapacityIsNotHeld(t *testing.T) {
	b := newBench(t, Options{})
	o := asking(1, 2, 0)
	preempted := o.Pods[0].DeepCopy()
	preempted.Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: corev1.PodReasonPreemptionByScheduler}}
	b.s.ledger.holds.trackPreempted(preempted, begin)
	if _, lost := b.s.ledger.holds.preempted[gang.Of(o.Pods[1])]; !lost {
		t.Errorf("%s is not known to have lost a pod", gang.Of(o.Pods[1]))
	}
	b.pass(preemptedFor + time.Second)
	if len(b.s.ledger.holds.preempted) > 0 {
		t.Error("remembered for ever")
	}
}

func TestMoveIsReported(t *testing.T) {
	b := newBench(t, Options{})
	b.taken("a1")
	o := asking(1, 2, 0)
	o.Record = formerlyAt("z", "a")
	b.expect("its rack is half taken", o, "rack b")
	if said := <-b.said.Events; !strings.Contains(said, "work-0 moves as a unit from z/a to z/b: needs 2 pods x 1 gpu") || !strings.Contains(said, "holds 1 of 2") {
		t.Error(said)
	}
	if !topology.Path([]string{"z", "b"}).Equal(b.s.ledger.pods.of(topology.PodID(o.Pods[0])).domain) {
		t.Errorf("released to %s", b.s.ledger.pods.of(topology.PodID(o.Pods[0])).domain)
	}
}
