// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/provider"
	"github.com/trellis-k8s/trellis/internal/render"
)

// evicting is a provider that releases nothing and notes what it is given back.
type evicting struct {
	silent
	taken []string
}

func (e *evicting) Evict(_ context.Context, pod *corev1.Pod) error {
	e.taken = append(e.taken, pod.Name)
	return nil
}

// onNode is a pod of another client on a host, which is asked to leave it with a grace period; 0 and less: it stays.
func onNode(name, host string, asked time.Time, grace time.Duration) *corev1.Pod {
	pod := withGPU(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: name, UID: types.UID(name)}})
	pod.Spec.NodeName = host
	if grace > 0 {
		pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = &metav1.Time{Time: asked.Add(grace)}, ptr.To(int64(grace/time.Second))
	}
	return pod
}

// nominated is a pod as the kube-scheduler leaves it that preempts others on its node.
func nominated(pod *corev1.Pod, gang, node string) *corev1.Pod {
	pod = pod.DeepCopy()
	pod.Spec.SchedulingGates, pod.Annotations = nil, map[string]string{render.AnnotationGang: gang}
	pod.Status = corev1.PodStatus{NominatedNodeName: node, Conditions: []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: "0/4 nodes are available",
	}}}
	return pod
}

// preempting is a cluster whose three hosts are in use, and a graph of one pod that preempts a pod on one of them, which has ten minutes to leave.
func preempting(t *testing.T) (*bench, graphs, *evicting, gang.Observation) {
	b, placer := newBench(t, Options{}), &evicting{}
	o := asking(1, 1, 1000)
	all := graphs{"g1": o}
	b.s.objects.reader, b.s.providers = all, provider.New(provider.Options{}, provider.All{Placers: []provider.Placer{placer}})
	b.host("a0", "a", 2)
	b.s.ledger.cluster.DeleteNode("a1")
	for _, host := range []string{"a0", "b0", "b1"} {
		b.s.podSet(nil, onNode("on-"+host, host, begin, 0))
	}
	b.s.podSet(nil, onNode("stays", "a0", begin, 0))
	d := b.decide(o)
	if len(d.releases) != 1 || d.releases[0].Pin.Node != "a0" || d.result.Placed != 0 {
		t.Fatalf("placed: %+v", d)
	}
	if w := d.result.Waiting; len(w) != 1 || w[0].Code != gang.CodePreempting || w[0].Message != "goes to z/a once pods of lower priority have left: 1 of 1 other pods" {
		t.Errorf("it waits for %+v", w)
	}
	<-b.said.Events
	all.set(b, nominated(o.Pods[0], "g1-gang", "a0"))
	b.s.podSet(nil, onNode("on-a0", "a0", begin, 10*time.Minute))
	return b, all, placer, all["g1"]
}

// set changes the first pod of the first graph.
func (g graphs) set(b *bench, pod *corev1.Pod) {
	o := g["g1"]
	o.Pods = []*corev1.Pod{pod}
	g["g1"] = o
	b.s.podSet(nil, pod)
}

// A preempted pod that does not leave (a finalizer, a dead kubelet) is waited for until its grace period and a minute are over, and named
// meanwhile. Others that come and go on the host do not prolong that. Then the gang is requeued and goes to another host, although it could preempt
// on the same one again.
func TestVictimsThatDoNotLeaveEndTheWait(t *testing.T) {
	b, all, placer, o := preempting(t)
	for minute := 0; !b.s.requeueStuck(t.Context(), o); minute++ {
		d := b.decide(o)
		want := "waits for pod other/on-a0 to leave node a0, by " + begin.Add(10*time.Minute).UTC().Format(time.RFC3339)
		if w := d.result.Waiting; len(w) != 1 || w[0].Code != gang.CodePreempting || w[0].Message != want || d.result.Placed != 0 {
			t.Fatalf("after %s it waits for %+v", b.clock.Since(begin), w)
		}
		if minute > 20 {
			t.Fatal("it waits for ever")
		}
		b.pass(time.Minute)
		passing := onNode(fmt.Sprint("passing-", minute), "a0", b.clock.Now(), time.Hour)
		passing.Spec.Containers = nil
		b.s.podSet(nil, passing)
		if minute%2 == 0 {
			b.s.podGone(passing)
		}
	}
	if waited := b.clock.Since(begin); waited != 11*time.Minute || len(placer.taken) != 1 {
		t.Errorf("requeued after %s: %v", waited, placer.taken)
	}
	if said := <-b.said.Events; !strings.Contains(said, "pod other/on-a0 has not left node a0, although its grace period ended at") {
		t.Errorf("said: %s", said)
	}
	b.s.podGone(o.Pods[0])
	if len(b.s.ledger.holds.byPod) > 0 {
		t.Errorf("capacity is held where it is not to come back: %+v", b.s.ledger.holds.byPod)
	}
	again := asking(1, 1, 1000)
	all["g1"] = again
	b.pass(firstBackoff)
	if d := b.decide(again); len(d.releases) != 1 || d.releases[0].Pin.Node == "a0" {
		t.Errorf("placed again: %d pods on %+v", len(d.releases), d.releases[0].Pin)
	}
	for id := range 21 {
		b.s.podGone(onNode(fmt.Sprint("passing-", id), "a0", begin, time.Hour))
	}
	b.s.podGone(onNode("on-a0", "a0", begin, 10*time.Minute))
	if b.decide(again); len(b.s.ledger.avoided) > 0 {
		t.Errorf("avoided for ever: %v", b.s.ledger.avoided)
	}
}

// When the last one has left, the kube-scheduler has all the time again to bind the pod.
func TestTimeToBeBoundBeginsWhenTheLastVictimHasLeft(t *testing.T) {
	b, _, placer, o := preempting(t)
	b.pass(9 * time.Minute)
	b.s.podGone(onNode("on-a0", "a0", begin, 10*time.Minute))
	b.pass(DefaultRequeueAfter - time.Second)
	if b.s.requeueStuck(t.Context(), o) {
		t.Fatal("requeued before its time was up")
	}
	b.pass(time.Second)
	if !b.s.requeueStuck(t.Context(), o) || len(placer.taken) != 1 {
		t.Errorf("requeued: %v, want the pod", placer.taken)
	}
}

// A scheduler that has not tried a gang again since the last victim left says nothing about its place as it is now: nothing is learnt, and the
// gang gets the same place. A later message is about that place.
func TestNothingIsLearntBeforeTheSchedulerTriesAgain(t *testing.T) {
	for name, tc := range map[string]struct {
		later string
		want  string
		n     int
	}{
		"not tried again":             {"", "; its scheduler has not tried again since the pods that had to leave have terminated", 0},
		"refused again for something": {"0/4 nodes are available: 4 cannot allocate all claims", "; left out for such pods: z/a", 1},
	} {
		t.Run(name, func(t *testing.T) {
			b, all, placer, o := preempting(t)
			b.pass(time.Minute)
			b.s.podGone(onNode("on-a0", "a0", begin, 10*time.Minute))
			b.pass(DefaultRequeueAfter / 2)
			released := o.Pods[0].DeepCopy()
			released.Spec.NodeSelector = map[string]string{"z": "z", "r": "a"}
			released.Spec.Affinity = pinned(gang.Release{Pod: released, Pin: gang.Pin{Node: "a0"}}).Spec.Affinity
			if tc.later != "" {
				released.Status.Conditions[0].Message = tc.later
			}
			all.set(b, released)
			b.pass(DefaultRequeueAfter)
			if !b.s.requeueStuck(t.Context(), all["g1"]) || len(placer.taken) != 1 {
				t.Fatalf("requeued: %v, want the pod", placer.taken)
			}
			if said := <-b.said.Events; !strings.HasSuffix(strings.TrimSpace(said), tc.want) {
				t.Errorf("said: %s, want %s", said, tc.want)
			}
			if n := b.s.ledger.placesLeftOut(b.clock.Now()); n != tc.n {
				t.Errorf("%d places are left out, want %d", n, tc.n)
			}
		})
	}
}

// A host becomes free while a gang waits for others to leave: it is requeued at once, and the host is its own, although another graph waits, too.
func TestFreeCapacityEndsTheWaitForVictims(t *testing.T) {
	b, all, placer, _ := preempting(t)
	all["g2"] = asking(2, 1, 0)
	b.s.queue.add(types.NamespacedName{Namespace: "ns", Name: "g1"})
	b.s.queue.add(types.NamespacedName{Namespace: "ns", Name: "g2"})
	b.look()
	if len(placer.taken) > 0 {
		t.Fatalf("requeued without any capacity: %v", placer.taken)
	}
	b.gone("b1")
	b.look()
	if !slices.Equal(placer.taken, []string{"g1-work-0"}) || b.releasing() > 0 {
		t.Fatalf("requeued: %v; placed: %v", placer.taken, b.s.ledger.pods.byID)
	}
	b.s.podGone(all["g1"].Pods[0])
	all["g1"] = asking(1, 1, 1000)
	for _, name := range []string{"g2", "g1"} {
		b.s.queue.add(types.NamespacedName{Namespace: "ns", Name: name})
		b.look()
		b.pass(firstBackoff)
	}
	if node, _ := b.s.ledger.cluster.Reserved("g1-work-0"); node != "b1" || len(b.s.ledger.holds.byPod) > 0 {
		t.Errorf("placed on %q, held: %v", node, b.s.ledger.holds.byPod)
	}
}

// A graph that waits for others to leave is not planned again for capacity that is not enough for it.
func TestCapacityThatIsNotEnoughDoesNotEndTheWaitForVictims(t *testing.T) {
	b, _, placer, _ := preempting(t)
	b.s.queue.add(types.NamespacedName{Namespace: "ns", Name: "g1"})
	b.look()
	b.host("c0", "c", 0)
	b.s.ledger.cluster.SetNode(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "c0", Labels: map[string]string{"z": "z", "r": "other"}}})
	b.s.wakeFreed()
	if due, _ := b.s.queue.take(b.clock.Now()); len(due) > 0 || len(placer.taken) > 0 {
		t.Errorf("due: %v, requeued: %v", due, placer.taken)
	}
}

// The kubelet of a host rejects what is placed there, again and again. The first time the replica goes back to its former domain; from the second time on
// the host comes last, whether it is the only one there or not, until the failures are forgotten.
func TestARejectingHostComesLast(t *testing.T) {
	b, o := newBench(t, Options{}), asking(1, 1, 0)
	sg := o.Groups[0]
	o.Record = formerlyAt("z", "a")
	b.taken("a1")
	at := func(rejections int32) (node, said string) {
		t.Helper()
		sg.Status.FailedReplicas = []trellisv1alpha1.FailedReplica{{Hosts: []trellisv1alpha1.RejectingHost{{Name: "a0", Rejections: rejections}}}}
		for len(b.said.Events) > 0 {
			<-b.said.Events
		}
		d := b.decide(o)
		if len(d.releases) != 1 {
			t.Fatalf("it waits: %+v", d.result.Waiting)
		}
		select {
		case said = <-b.said.Events:
		default:
		}
		node, _ = b.s.ledger.cluster.Reserved("g1-work-0")
		b.s.ledger.notReleased(d.releases[0], false, nil)
		return node, said
	}
	if node, _ := at(1); node != "a0" {
		t.Errorf("after one rejection it goes to %s, want its former domain", node)
	}
	node, said := at(2)
	if node != "b0" || said != "Normal ReplicaMoved work-0 moves as a unit from z/a to z/b: node a0 has rejected its pods and comes last for it" {
		t.Errorf("after two rejections it goes to %s; said: %s", node, said)
	}
	o.Record = nil
	if _, again := at(2); again != said {
		t.Errorf("without a recorded former domain, said: %s", again)
	}
	b.taken("b0", "b1")
	if node, _ := at(2); node != "a0" {
		t.Errorf("with nothing else free it goes to %s", node)
	}
	b.freed("a1")
	if node, said := at(2); node != "a1" || said != "" {
		t.Errorf("with another host of its domain free it goes to %s; said: %s", node, said)
	}
	b.host("a2", "a", 1)
	b.freed("b0")
	if node, _ := at(2); node != "b0" {
		t.Errorf("it goes to %s, want the tightest rack, whatever its former one", node)
	}
	b.taken("b0")
	if d := b.decide(o); d.releases[0].Pin.Node != "a1" {
		t.Errorf("the kube-scheduler may choose the host: %+v", d.releases[0].Pin)
	}
}

// A pod of a graph was deleted and does not end. The graph is looked at when its time is over, and then Placed names the pod, until it is gone.
func TestPodsThatDoNotEndAreReported(t *testing.T) {
	b, o := newBench(t, Options{}), asking(1, 1, 0)
	b.s.objects.reader = withGroup{graphs{"g1": o}, o.Groups[0]}
	pod := o.Pods[0]
	pod.Spec.SchedulingGates, pod.Spec.NodeName = nil, "a0"
	pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = &metav1.Time{Time: begin.Add(time.Minute)}, ptr.To[int64](60)
	b.s.podSet(nil, pod)
	if w := b.decide(o).result.Waiting; len(w) > 0 {
		t.Errorf("while it has time: %+v", w)
	}
	b.s.queue.take(b.clock.Now())
	b.pass(time.Minute + gang.EndsWithin)
	if due, _ := b.s.queue.take(b.clock.Now()); !slices.Contains(due, clientKey(o)) {
		t.Errorf("due are %v", due)
	}
	for node, want := range map[*corev1.Node]string{
		{ObjectMeta: metav1.ObjectMeta{Name: "a0"}}: "pod g1-work-0 on node a0 has been terminating since ",
		{ObjectMeta: metav1.ObjectMeta{Name: "a0"}, Status: corev1.NodeStatus{
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionFalse}},
		}}: "pod g1-work-0 on node a0, which is not ready, has been terminating since ",
	} {
		b.s.ledger.nodeChanged(nil, node)
		w := b.decide(o).result.Waiting
		if len(w) != 1 || w[0].Code != gang.CodePodsNotEnding || !strings.HasPrefix(w[0].Message, want+begin.UTC().Format(time.RFC3339)) {
			t.Errorf("when its time is over: %+v", w)
		}
	}
}
