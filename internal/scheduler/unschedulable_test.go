// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/trellis-k8s/trellis/internal/assignment"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/provider"
)

// refuse is a pod that the kube-scheduler has refused.
func refuse(pod *corev1.Pod, reason, message string) {
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: reason, Message: message}}
}

// A released pod that its scheduler refuses is not placed: the result names it with the scheduler's words, after a second in which the
// scheduler may bind it at its next try. When it is bound, its replica is placed again.
func TestARefusedPodIsNotPlaced(t *testing.T) {
	const want = "the scheduler refuses pod g5-work-0-1, which is released to z/a: 0/4 nodes are available: 4 node(s) had volume node affinity conflict."
	for name, tc := range map[string]struct {
		edit func(*corev1.Pod)
		// objected is what the provider holds against the pod.
		objected *gang.Objection
		want     string
	}{
		"refused":                   {edit: func(*corev1.Pod) {}, want: want},
		"an error of the scheduler": {edit: func(pod *corev1.Pod) { pod.Status.Conditions[0].Reason = corev1.PodReasonSchedulerError }, want: want},
		"a node is nominated":       {edit: func(pod *corev1.Pod) { pod.Status.NominatedNodeName = "a1" }},
		"gated by another controller": {edit: func(pod *corev1.Pod) {
			pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/hold"}}
			pod.Status.Conditions[0].Reason = corev1.PodReasonSchedulingGated
		}},
		"bound": {edit: func(pod *corev1.Pod) { pod.Spec.NodeName = "a1" }},
		"a passing objection of the provider": {
			edit: func(*corev1.Pod) {}, objected: &gang.Objection{Message: "its gang is not there yet", Passing: true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newIdleBench(t)
			o := b.released(func(pod *corev1.Pod) {
				refuse(pod, corev1.PodReasonUnschedulable, "0/4 nodes are available: 4 node(s) had volume node affinity conflict.")
				tc.edit(pod)
			})
			if tc.objected != nil {
				o.Objections = map[types.UID]gang.Objection{o.Pods[1].UID: *tc.objected}
			}
			if d := b.decide(o); len(d.result.Waiting) > 0 || d.result.Placed != 1 {
				t.Fatalf("at once: placed %d, waiting %v", d.result.Placed, d.result.Waiting)
			}
			b.s.queue.take(b.clock.Now())
			b.pass(time.Second)
			if due, _ := b.s.queue.take(b.clock.Now()); tc.want != "" && len(due) != 1 {
				t.Errorf("to be looked at are %v", due)
			}
			result := b.decide(o).result
			switch {
			case tc.want == "" && (len(result.Waiting) > 0 || result.Placed != 1):
				t.Fatalf("placed %d, waiting %v", result.Placed, result.Waiting)
			case tc.want == "":
				return
			case len(result.Waiting) != 1 || result.Waiting[0].Code != "Unschedulable" || result.Waiting[0].Message != tc.want || result.Placed != 0:
				t.Fatalf("placed %d, waiting %v; want %s", result.Placed, result.Waiting, tc.want)
			}
			if b.reserved(o) != 2 {
				t.Errorf("%d pods are reserved", b.reserved(o))
			}
			for i, pod := range o.Pods {
				pod.Spec.NodeName, pod.Status.Conditions = []string{"a0", "a1"}[i], nil
			}
			b.deliver(o)
			if result := b.decide(o).result; len(result.Waiting) > 0 || result.Placed != 1 {
				t.Errorf("bound: placed %d, waiting %v", result.Placed, result.Waiting)
			}
		})
	}
}

// A scheduler's message is as long as the number of its reasons; what is passed on of it is bounded.
func TestTheWordsOfARefusalAreBounded(t *testing.T) {
	b := newIdleBench(t)
	o := b.released(func(pod *corev1.Pod) {
		refuse(pod, corev1.PodReasonUnschedulable, strings.Repeat("a long reason, ", 1000))
	})
	b.pass(time.Second)
	if w := b.decide(o).result.Waiting; len(w) != 1 || len(w[0].Message) > 600 {
		t.Errorf("waiting %v", w)
	}
}

// A refusal requeues nothing. The requeue is counted when the gang waits again after its eviction.
func TestARefusalIsNoRequeue(t *testing.T) {
	m := measure(t, Options{RequeueAfter: DefaultRequeueAfter})
	m.s.providers = provider.New(provider.Options{}, provider.All{Placers: []provider.Placer{&evicting{}}})
	before := m.readings()
	o := asking(1, 1, 0)
	was := (&assignment.Record{}).Clone()
	was.Assign("g1-gang", gang.Key{Component: "work"}, nil, []string{"a0"}, m.clock.Now())
	m.records(o, was)
	m.s.results.set(clientKey(o), gang.Result{UID: o.DGD.UID})
	stuck := o
	stuck.Pods = []*corev1.Pod{nominated(o.Pods[0], "g1-gang", "")}
	refuse(stuck.Pods[0], corev1.PodReasonUnschedulable, "0/4 nodes are available")
	m.track(stuck.Pods[0])
	m.pass(time.Second)
	m.all.graphs[o.DGD.Name] = stuck
	m.looks(stuck)
	counted := func() (lines []string) {
		for _, line := range changes(before, m.readings()) {
			if strings.Contains(line, "_requeues_") || strings.Contains(line, "Unschedulable") {
				lines = append(lines, line)
			}
		}
		return lines
	}
	if got := strings.Join(counted(), "; "); strings.Contains(got, "_requeues_") || !strings.Contains(got, "trellis_replicas_refused_total Unschedulable: 1") {
		t.Errorf("while refused: changed %s", got)
	}
	m.pass(DefaultRequeueAfter)
	stuck.Record = was
	if !m.s.requeueStuck(t.Context(), stuck) {
		t.Fatal("not evicted")
	}
	m.all.graphs[o.DGD.Name] = o
	m.looks(o)
	m.looks(o)
	if got := strings.Join(counted(), "; "); !strings.Contains(got, "trellis_gang_requeues_total Evicted: 1") || strings.Contains(got, "Replaced") {
		t.Errorf("evicted: changed %s", got)
	}
}
