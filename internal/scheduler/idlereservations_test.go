// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/render"
)

// newIdleBench is a bench whose loop reads nothing, so that pod events can be delivered.
func newIdleBench(t *testing.T) *bench {
	b := newBench(t, Options{RequeueAfter: 30 * time.Second})
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, trellisv1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	b.s.objects.reader = fake.NewClientBuilder().WithScheme(scheme).Build()
	return b
}

// released is a graph of two pods that are released to rack a, as its events show it; the API server leaves the condition of the gate.
func (b *bench) released(edit func(*corev1.Pod)) gang.Observation {
	o := asking(5, 2, 0)
	for _, pod := range o.Pods {
		pod.Spec.SchedulingGates, pod.Annotations = nil, map[string]string{render.AnnotationGang: "g5-gang"}
		pod.Spec.NodeSelector = map[string]string{"z": "z", "r": "a"}
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonSchedulingGated}}
	}
	edit(o.Pods[1])
	b.deliver(o)
	return o
}

func (b *bench) deliver(o gang.Observation) {
	for _, pod := range o.Pods {
		b.s.podSet(nil, pod)
	}
	b.decide(o)
}

func clientKey(o gang.Observation) types.NamespacedName { return client.ObjectKeyFromObject(o.DGD) }

func (b *bench) reserved(o gang.Observation) (n int) {
	for _, pod := range o.Pods {
		if _, has := b.s.ledger.cluster.Reserved(string(pod.UID)); has {
			n++
		}
	}
	return n
}

// bound says that a scheduler binds pods.
func (b *bench) bound(scheduler string) {
	pod := withGPU(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: "bound", UID: "bound"}})
	pod.Spec.NodeName, pod.Spec.SchedulerName = "b0", scheduler
	b.s.podSet(nil, pod)
}

// A reservation ends when nothing tries to bind the pod, Placed describes what holds it, and those who wait get the capacity. After a restart it is the same.
func TestReservationEndsWhenNothingBindsThePod(t *testing.T) {
	gated := func(pod *corev1.Pod) {
		pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/hold"}}
	}
	for name, tc := range map[string]struct {
		edit  func(*corev1.Pod)
		after time.Duration
		want  string
	}{
		"a scheduler that is not there": {
			func(pod *corev1.Pod) { pod.Spec.SchedulerName = "nobody" }, 30 * time.Second,
			`no scheduler with the name "nobody" has tried to bind pod g5-work-0-1, so its capacity is not reserved any more`,
		},
		"a gate of another controller": {
			gated, 30 * time.Second,
			`pod g5-work-0-1 has the scheduling gate "example.com/hold", which is not Trellis', so its capacity is not reserved any more`,
		},
		"a scheduler that binds others": {
			func(pod *corev1.Pod) { pod.Spec.SchedulerName = "busy" }, 5 * time.Minute,
			`the scheduler "default-scheduler" has not tried to bind pod g5-work-0-0 for 5m0s, so its capacity is not reserved any more`,
		},
		"a scheduler that nominated a node and went away": {
			func(pod *corev1.Pod) { pod.Status.NominatedNodeName = "a1" }, 5 * time.Minute,
			`the scheduler "default-scheduler" has not tried to bind pod g5-work-0-0 for 5m0s, so its capacity is not reserved any more`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newIdleBench(t)
			b.bound("busy")
			o := b.released(tc.edit)
			b.pass(tc.after - time.Second)
			if d := b.decide(o); b.reserved(o) != 2 || len(d.result.Waiting) > 0 {
				t.Fatalf("before its time: %d reserved, %v", b.reserved(o), d.result.Waiting)
			}
			b.s.queue.setWaiting(clientKey(asking(6, 1, 0)), true, waiting{})
			b.s.queue.take(b.clock.Now())
			b.pass(time.Second)
			if due, _ := b.s.queue.take(b.clock.Now()); len(due) != 1 || due[0] != clientKey(o) {
				t.Errorf("to be looked at are %v, want the graph", due)
			}
			result := b.decide(o).result
			if len(result.Waiting) != 1 || result.Waiting[0].Code != "SchedulingBlocked" || result.Waiting[0].Message != tc.want || result.Placed != 0 {
				t.Errorf("placed %d, waiting %v; want %s", result.Placed, result.Waiting, tc.want)
			}
			if b.reserved(o) == 2 {
				t.Error("both pods are reserved still")
			}
			b.s.wakeFreed()
			if due, _ := b.s.queue.take(b.clock.Now()); len(due) != 1 || due[0] != clientKey(asking(6, 1, 0)) {
				t.Errorf("to be looked at are %v, want the one that waits", due)
			}
			b.taken("b1")
			b.expect("one that waits", asking(6, 1, 0), "rack a")
		})
	}
}

// A pod whose gate is removed is reserved again if there is capacity, and is given its time from then on.
func TestReservationComesBackWhenTheGateIsRemoved(t *testing.T) {
	b := newIdleBench(t)
	b.bound("")
	o := b.released(func(pod *corev1.Pod) {
		pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/hold"}}
	})
	b.pass(30 * time.Second)
	if b.decide(o); b.reserved(o) != 1 {
		t.Fatalf("%d reserved, want the one without the gate", b.reserved(o))
	}
	o.Pods[1] = o.Pods[1].DeepCopy()
	o.Pods[1].Spec.SchedulingGates = nil
	b.deliver(o)
	if b.pass(time.Minute); b.reserved(o) != 2 {
		t.Errorf("%d reserved, want both", b.reserved(o))
	}
	if d := b.decide(o); len(d.result.Waiting) > 0 {
		t.Errorf("waiting are %v", d.result.Waiting)
	}
}

// Whatever a scheduler says against a pod, its gang is evicted and planned again when it reports it for long enough.
func TestAnyObjectionOfASchedulerCounts(t *testing.T) {
	for reason, want := range map[string]string{
		corev1.PodReasonUnschedulable: "no node", corev1.PodReasonSchedulerError: "no node", "Other": "no node", corev1.PodReasonSchedulingGated: "",
	} {
		pod := &corev1.Pod{Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: reason, Message: "no node",
		}}}}
		if got := gang.WhyUnschedulable(pod); got != want {
			t.Errorf("%s: %q, want %q", reason, got, want)
		}
		pod.Status.Conditions[0].Message = ""
		if got := gang.WhyUnschedulable(pod); strings.Contains(got, reason) != (want != "") {
			t.Errorf("%s without a message: %q", reason, got)
		}
	}
}

// What is known of pods is forgotten with them.
func TestIdlePodsAreForgotten(t *testing.T) {
	b := newIdleBench(t)
	o := b.released(func(pod *corev1.Pod) { pod.Spec.SchedulerName = "nobody" })
	b.pass(time.Minute)
	b.decide(o)
	b.s.podGone(o.Pods[1])
	o.Pods[0] = o.Pods[0].DeepCopy()
	o.Pods[0].Spec.NodeName = "a0"
	b.s.podSet(nil, o.Pods[0])
	if n := len(b.s.ledger.pods.byID); n > 0 {
		t.Errorf("%d entries are left", n)
	}
}

// A queue without quota for a gang keeps others off its capacity for a time. When the queue has some again, the gang gets what is left.
func TestReservationEndsWhenAQuotaRefusesThePodForLong(t *testing.T) {
	b := newIdleBench(t)
	o := b.released(func(*corev1.Pod) {})
	for _, pod := range o.Pods {
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: "over quota"}}
	}
	b.deliver(o)
	refused := o
	refused.Objections = map[types.UID]gang.Objection{}
	for _, pod := range o.Pods {
		refused.Objections[pod.UID] = gang.Objection{Message: "over quota", Anywhere: true}
	}
	message := func() string {
		w := b.decide(refused).result.Waiting
		if len(w) != 1 || w[0].Code != gang.CodeSchedulerRefuses {
			t.Fatalf("waiting %v", w)
		}
		return w[0].Message
	}
	message()
	b.s.queue.take(b.clock.Now())
	b.pass(servedPatience*b.s.options.RequeueAfter - time.Second)
	if got := message(); got != "by Trellis' count it has capacity in z/a; over quota" || b.reserved(o) != 2 {
		t.Fatalf("before its time: %d reserved: %s", b.reserved(o), got)
	}
	b.pass(time.Second)
	if due, _ := b.s.queue.take(b.clock.Now()); len(due) != 1 || due[0] != clientKey(o) {
		t.Errorf("to be looked at are %v, want the graph", due)
	}
	if got := message(); got != "by Trellis' count it has capacity in z/a; over quota, so its capacity is not reserved any more" || b.reserved(o) != 0 {
		t.Errorf("%d reserved: %s", b.reserved(o), got)
	}
	if b.decide(o); b.reserved(o) != 2 {
		t.Errorf("%d reserved once the quota allows it, want 2", b.reserved(o))
	}
	for _, pod := range o.Pods {
		b.s.podGone(pod)
	}
	if n := len(b.s.ledger.pods.byID); n > 0 {
		t.Errorf("%d pods are remembered for ever", n)
	}
}

// Anybody who may create pods names schedulers. Of those that are seen at work the latest are remembered, and none with an endless name.
func TestSchedulersAreForgotten(t *testing.T) {
	p := newServedSchedulers()
	bound := func(scheduler string) *corev1.Pod {
		return &corev1.Pod{Spec: corev1.PodSpec{SchedulerName: scheduler, NodeName: "n"}}
	}
	for i := range 50000 {
		p.see(bound(fmt.Sprintf("scheduler-%d", i)))
		p.see(bound("always"))
	}
	p.see(bound(strings.Repeat("long", 1000)))
	if p.names.Len() > maxServed {
		t.Errorf("%d are remembered", p.names.Len())
	}
	for name, want := range map[string]bool{
		"always": true, corev1.DefaultSchedulerName: true, "kai-scheduler": true, "scheduler-49999": true, "scheduler-0": false, strings.Repeat("long", 1000): false,
	} {
		if p.has(name) != want {
			t.Errorf("%.20s: %t", name, !want)
		}
	}
}
