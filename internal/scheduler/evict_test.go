// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"errors"
	"fmt"
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
	"github.com/trellis-k8s/trellis/internal/provider"
	gates "github.com/trellis-k8s/trellis/internal/provider/gates/placer"
	"github.com/trellis-k8s/trellis/internal/render"
)

// objecting is a provider whose scheduler binds nothing, and that notes what it is given back.
type objecting struct {
	gates.Placer
	taken []string
	// fail is how many evictions fail.
	fail int
	// failed is called when an eviction fails; nil: nothing is.
	failed func()
}

func (o *objecting) Objections(_ context.Context, _ client.Reader, unbound, _ []*corev1.Pod) map[types.UID]gang.Objection {
	out := map[types.UID]gang.Objection{}
	for _, pod := range unbound {
		out[pod.UID] = gang.Objection{Message: "its gang is not there", Passing: true}
	}
	return out
}

func (o *objecting) Evict(_ context.Context, pod *corev1.Pod) error {
	if o.fail--; o.fail >= 0 {
		if o.failed != nil {
			o.failed()
		}
		return errors.New("the API server does not answer")
	}
	o.taken = append(o.taken, pod.Name)
	return nil
}

// A pod that the provider objects to is evaluated again when its time is up, although a look before that was asked for too: a graph has one
// next look, the earliest.
func TestAnEarlierLookDoesNotStandInTheWayOfRequeueing(t *testing.T) {
	for name, stuck := range map[string]func(*bench, *corev1.Pod){
		"objected to by the provider": func(*bench, *corev1.Pod) {},
		"unschedulable": func(_ *bench, pod *corev1.Pod) {
			pod.Status.Conditions = []corev1.PodCondition{{
				Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: "0/1 nodes are available",
			}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			b, placer := newBench(t, Options{RequeueAfter: 30 * time.Second}), &objecting{}
			b.s.providers = provider.New(provider.Options{}, provider.All{Placers: []provider.Placer{placer}})
			o := asking(1, 1, 0)
			pod, graphName := o.Pods[0], client.ObjectKeyFromObject(o.DGD)
			pod.Spec.SchedulingGates, pod.Annotations = nil, map[string]string{render.AnnotationGang: "g1-gang"}
			stuck(b, pod)

			looks := 0
			look := func() bool {
				looks++
				b.track(pod)
				b.s.askProvider(t.Context(), &o)
				return b.s.requeueStuck(t.Context(), o)
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
				t.Errorf("%v requeued after %s and %d looks", placer.taken, waited, looks)
			}
		})
	}
}

// A gang that its queue has no quota for would be refused at any other place too: it is reported and not requeued. When that is over and
// something else stands against it, its time begins then.
func TestWhatStandsAgainstAGangAnywhereDoesNotRequeueIt(t *testing.T) {
	b, placer := newBench(t, Options{RequeueAfter: 30 * time.Second}), &objecting{}
	b.s.providers = provider.New(provider.Options{}, provider.All{Placers: []provider.Placer{placer}})
	o := asking(1, 1, 0)
	pod := o.Pods[0]
	pod.Spec.SchedulingGates, pod.Annotations = nil, map[string]string{render.AnnotationGang: "g1-gang"}
	pod.Status.Conditions = []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: "over quota",
	}}
	look := func() bool {
		b.track(pod)
		return b.s.requeueStuck(t.Context(), o)
	}
	o.Objections = map[types.UID]gang.Objection{pod.UID: {Message: "over quota", Anywhere: true}}
	for range 5 {
		if look() {
			t.Fatalf("requeued after %s", b.clock.Since(begin))
		}
		b.pass(20 * time.Second)
	}
	look()
	o.Objections = nil
	b.pass(29 * time.Second)
	if look() {
		t.Fatal("requeued before its time was up")
	}
	b.pass(time.Second)
	if !look() || len(placer.taken) != 1 {
		t.Errorf("requeued: %v, want the pod", placer.taken)
	}
}

// The pause is not over when all that is left of an evicted gang is bound: that is on its way out.
func TestThePauseLastsUntilAllIsBound(t *testing.T) {
	b, o := newBench(t, Options{}), asking(1, 2, 0)
	b.s.ledger.backoffs.begin(clientKey(o), "stuck", begin)
	bound := func(pod *corev1.Pod, node string) *corev1.Pod {
		pod = boundTo(pod, node)
		pod.Spec.SchedulingGates = nil
		return pod
	}
	leaving := bound(o.Pods[0], "a0")
	leaving.DeletionTimestamp = &metav1.Time{Time: begin}
	for _, step := range []struct {
		what  string
		pods  []*corev1.Pod
		lasts bool
	}{
		{"one is released", []*corev1.Pod{bound(o.Pods[0], "a0"), bound(o.Pods[1], "")}, true},
		{"one leaves", []*corev1.Pod{leaving}, true},
		{"both wait again", o.Pods, true},
		{"one is missing", []*corev1.Pod{bound(o.Pods[0], "a0")}, true},
		{"both are bound", []*corev1.Pod{bound(o.Pods[0], "a0"), bound(o.Pods[1], "a1")}, false},
	} {
		now := o
		now.Pods = step.pods
		b.decide(now)
		if _, lasts := b.s.ledger.backoffs.of(clientKey(o), begin); lasts != step.lasts {
			t.Errorf("%s: the pause lasts: %v, want %v", step.what, lasts, step.lasts)
		}
	}
}

// Gangs that are stuck in one look make one pause. Until the cache shows that their pods are gone nothing is counted, said or evicted twice; what
// could not be evicted is tried again.
func TestGangsOfOneLookAreRequeuedOnce(t *testing.T) {
	b, placer := newBench(t, Options{RequeueAfter: 30 * time.Second}), &objecting{fail: 1}
	b.s.providers = provider.New(provider.Options{}, provider.All{Placers: []provider.Placer{placer}})
	o := asking(1, 1, 0)
	o.Pods = nil
	for i := range int32(10) {
		pod := withGPU(newPod(o.Groups[0], i, 0))
		pod.Spec.SchedulingGates, pod.Annotations = nil, map[string]string{render.AnnotationGang: fmt.Sprint("g1-gang", i)}
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "0/1 nodes are available"}}
		o.Pods = append(o.Pods, pod)
		b.track(pod)
	}
	b.pass(30 * time.Second)
	for range 3 {
		if !b.s.requeueStuck(t.Context(), o) {
			t.Error("planned while the pods are there")
		}
	}
	if times := b.s.ledger.backoffs.times(clientKey(o), b.clock.Now()); times != 1 || len(b.said.Events) != 10 || len(placer.taken) != 10 {
		t.Errorf("%d pauses, %d events, %d evicted; want 1, 10, 10", times, len(b.said.Events), len(placer.taken))
	}
	for _, pod := range o.Pods {
		b.s.ledger.pods.forget(string(pod.UID))
	}
	if n := len(b.s.ledger.pods.byID); n > 0 {
		t.Errorf("%d pods are remembered for ever", n)
	}
}

// A gang is promised the capacity of a less important one. It is requeued after that has gone: the capacity stays its own, or the other gang would
// return, and be preempted again, and again.
func TestCapacityFreedForAGangIsKeptWhenItIsRequeued(t *testing.T) {
	for name, restarted := range map[string]bool{"by the plan": false, "by the kube-scheduler's word, after a restart": true} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, Options{})
			b.taken("b0", "b1")
			low, high := asking(1, 2, 0), asking(2, 2, 1000)
			scheme := runtime.NewScheme()
			for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, trellisv1alpha1.AddToScheme} {
				if err := add(scheme); err != nil {
					t.Fatal(err)
				}
			}
			b.s.objects.reader = fake.NewClientBuilder().WithScheme(scheme).WithObjects(low.Groups[0], high.Groups[0]).
				WithIndex(&corev1.Pod{}, IndexPodsByGraph, func(o client.Object) []string { return []string{o.GetLabels()[render.LabelGraph]} }).Build()

			b.expect("the first one has the free rack", low, "rack a")
			for i, pod := range low.Pods {
				pod.Spec.SchedulingGates, pod.Spec.NodeName = nil, []string{"a0", "a1"}[i]
				b.s.podSet(nil, pod)
			}
			b.expect("the important one breaks it up", high, "goes to z/a once pods of lower priority have left: 2 of ns/g1-work-0")
			for _, pod := range high.Pods {
				b.s.ledger.notReleased(gang.Release{Pod: pod}, false, nil)
			}
			if b.preempts() > 0 {
				t.Errorf("what could not be released is still remembered: %+v", b.s.ledger.pods.byID)
			}
			b.expect("it is planned again", high, "goes to z/a once")
			for _, pod := range low.Pods {
				pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: corev1.PodReasonPreemptionByScheduler}}
				b.s.podSet(pod, pod)
				b.s.podGone(pod)
			}
			if restarted {
				for _, r := range b.s.ledger.pods.byID {
					r.preempting = false
				}
			}
			for _, pod := range high.Pods {
				pod.Spec.SchedulingGates = nil
				if restarted {
					pod.Status.NominatedNodeName = "a0"
				}
				b.s.podGone(pod)
			}

			b.expect("it comes back", asking(1, 2, 0), "a holds 0 of 2")
			if again := asking(2, 2, 1000); b.ask(again) != "rack a" {
				t.Error("the capacity is not given to the gang it was made for")
			}
			if b.preempts() > 0 {
				t.Errorf("remembered for ever: %+v", b.s.ledger.pods.byID)
			}
		})
	}
}
