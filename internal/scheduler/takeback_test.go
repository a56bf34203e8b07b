// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-k8s/trellis/internal/engine"
	"github.com/trellis-k8s/trellis/internal/engine/gates"
	"github.com/trellis-k8s/trellis/internal/graph"
)

// objecting is an engine whose scheduler binds nothing, and that notes what it is given back.
type objecting struct {
	gates.Placer
	taken []string
}

func (o *objecting) Object(_ context.Context, _ client.Reader, unbound, _ []*corev1.Pod) map[types.UID]engine.Objection {
	out := map[types.UID]engine.Objection{}
	for _, pod := range unbound {
		out[pod.UID] = engine.Objection{Message: "its gang is not there", Passing: true}
	}
	return out
}

func (o *objecting) TakeBack(_ context.Context, pod *corev1.Pod) error {
	o.taken = append(o.taken, pod.Name)
	return nil
}

// A pod that the engine objects to is looked at again when its time is up, although a look before that was asked for too: a graph has one
// next look, the earliest.
func TestAnEarlierLookDoesNotStandInTheWayOfTakingBack(t *testing.T) {
	for name, stuck := range map[string]func(*bench, *corev1.Pod){
		"objected to by the engine": func(*bench, *corev1.Pod) {},
		"unschedulable": func(_ *bench, pod *corev1.Pod) {
			pod.Status.Conditions = []corev1.PodCondition{{
				Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: "0/1 nodes are available",
			}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			b, placer := newBench(t, Options{TakeBackAfter: 30 * time.Second}), &objecting{}
			b.s.engines = engine.New(engine.Options{}, placer)
			o := asking(1, 1, 0)
			pod, graphName := o.pods[0], client.ObjectKeyFromObject(o.dgd)
			pod.Spec.SchedulingGates, pod.Annotations = nil, map[string]string{graph.AnnotationGang: "g1-gang"}
			stuck(b, pod)

			looks := 0
			look := func() bool {
				looks++
				b.s.trackStuck(pod, string(pod.UID))
				b.s.askEngine(t.Context(), &o)
				return b.s.takeBackStuck(t.Context(), o)
			}
			b.s.queue.addAt(graphName, b.clock.Now().Add(time.Second))
			for !look() {
				_, next := b.s.queue.take(b.clock.Now())
				b.pass(next)
				if due, _ := b.s.queue.take(b.clock.Now()); len(due) == 0 {
					t.Fatalf("after %s and %d looks nobody looks again", b.clock.Since(begin), looks)
				}
			}
			if waited := b.clock.Since(begin); waited != 30*time.Second || placer.taken[0] != pod.Name || looks != 3 {
				t.Errorf("%v taken back after %s and %d looks", placer.taken, waited, looks)
			}
		})
	}
}

// A pod that is promised the room of another waits until that is gone. If the kube-scheduler has forgotten it by then, it is taken back.
func TestAPodWithAPromiseIsTakenBackWhenTheRoomIsFreeAndItIsNotBound(t *testing.T) {
	b := newBench(t, Options{TakeBackAfter: 30 * time.Second})
	placer := &objecting{}
	b.s.engines = engine.New(engine.Options{}, placer)
	o := asking(1, 1, 0)
	pod := o.pods[0]
	pod.Spec.SchedulingGates, pod.Annotations = nil, map[string]string{graph.AnnotationGang: "g1-gang"}
	pod.Status = corev1.PodStatus{NominatedNodeName: "a0", Conditions: []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: "0/1 nodes are available",
	}}}
	victim := withGPU(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: "victim", UID: "victim", DeletionTimestamp: &metav1.Time{Time: begin}}})
	victim.Spec.NodeName = "a0"
	b.s.cluster.SetPod(victim)
	b.s.trackStuck(pod, string(pod.UID))
	for range 5 {
		if b.s.takeBackStuck(t.Context(), o) {
			t.Fatal("taken back while the other is still on its way out")
		}
		b.pass(20 * time.Second)
	}
	b.s.takeBackStuck(t.Context(), o)
	b.s.cluster.DeletePod("victim")
	b.pass(29 * time.Second)
	if b.s.takeBackStuck(t.Context(), o) {
		t.Fatal("taken back before its time was up")
	}
	b.pass(time.Second)
	if !b.s.takeBackStuck(t.Context(), o) || len(placer.taken) != 1 {
		t.Errorf("taken back: %v, want the pod", placer.taken)
	}
}
