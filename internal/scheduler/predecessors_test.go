// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// replacing is a loop in which a replica of two pods ran in rack a, is gone, and is to be created again, as the API cache shows it.
func replacing(t *testing.T) (*creating, gang.Observation, *trellisv1alpha1.ScalingGroup, []*corev1.Pod) {
	w, o := newCreating(t), planned(1, 2)
	sg := o.Groups[0]
	w.s.objects.reader = withGroup{graphs{"g1": o}, sg}
	w.taken("b0", "b1")
	w.ask(sg)
	w.look(o)
	pods := w.create(sg)
	for i, pod := range pods {
		pod.Spec.NodeName = []string{"a0", "a1"}[i]
		w.s.ledger.podChanged(pod)
	}
	o.Pods = pods
	w.look(o)
	o.Pods = nil
	w.ask(sg)
	w.look(o)
	return w, o, sg, pods
}

// A replica is given the capacity of its predecessor, also when the ledger is told later than the API cache that this one is gone. What it
// is told then changes nothing.
func TestSuccessorsTakeTheCapacityOfTheirPredecessors(t *testing.T) {
	w, o, sg, pods := replacing(t)
	if diff := cmp.Diff(map[string]string{"work-0": "2 pods in a (2.)"}, w.ask(sg)); diff != "" {
		t.Errorf("answer (-want +got):\n%s", diff)
	}
	for _, pod := range pods {
		w.s.ledger.podChanged(pod)
		w.s.ledger.podGone(pod)
	}
	w.look(o)
	if diff := cmp.Diff(map[string]string{"a0": "g1-work-0-0", "a1": "g1-work-0-1"}, w.reserved()); diff != "" {
		t.Errorf("reservations after the events (-want +got):\n%s", diff)
	}
	for _, pod := range pods {
		if node, is := w.s.ledger.cluster.Bound(topology.PodID(pod)); is {
			t.Errorf("pod %s, which is gone, counts on %s", pod.Name, node)
		}
	}
	if left := len(w.s.ledger.own) + len(w.s.ledger.past); left > 0 {
		t.Errorf("%d pods that are gone are remembered", left)
	}
}

// A lost replica is to be created in place, and its creation fails: its capacity is held for the rest of the time, for the pods that are
// created gated then.
func TestTheCapacityOfPredecessorsIsHeldAgain(t *testing.T) {
	both, none := map[string]string{"a0": "made", "a1": "made"}, map[string]string{}
	for name, tc := range map[string]struct {
		after time.Duration
		// seen: the loop has seen the pods, which were created, before they are deleted.
		seen, requeued bool
		// preempted: another pod of the replica had to free capacity.
		preempted bool
		want      map[string]string
	}{
		"at once": {0, false, false, false, both}, "when it is not held any more": {DefaultHoldFor, false, false, false, none}, "after pods were seen": {0, true, false, false, both},
		"not for a gang that is requeued": {0, true, true, false, none}, "nor for one that was preempted": {0, true, false, true, none},
	} {
		t.Run(name, func(t *testing.T) {
			w, o, sg, _ := replacing(t)
			w.clock.Step(tc.after)
			var pods []*corev1.Pod
			if tc.seen {
				pods = w.create(sg)
			}
			if !w.s.ledger.creates(client.ObjectKeyFromObject(o.DGD)) {
				t.Error("no creation is under way before its pods are seen")
			}
			for _, pod := range pods {
				w.s.ledger.podChanged(pod)
				if tc.preempted {
					w.s.ledger.holds.preempted[gang.Of(pod)] = w.clock.Now()
				}
			}
			if w.s.ledger.creates(client.ObjectKeyFromObject(o.DGD)) && tc.seen {
				t.Error("a creation is under way whose pods were seen")
			}
			w.refuse(sg)
			for _, pod := range pods {
				w.s.ledger.pods.change(topology.PodID(pod), func(r *released) { r.requeued, r.uncreated = true, !tc.requeued })
				w.s.ledger.podGone(pod)
			}
			w.look(o)
			if diff := cmp.Diff(tc.want, w.reserved()); diff != "" {
				t.Errorf("reservations (-want +got):\n%s", diff)
			}
		})
	}
}

// An object that was deleted and created again while the watch was cut comes as one update.
func TestRecreatedWithinAnUpdate(t *testing.T) {
	var told []string
	events := handle(func(old, now *corev1.Pod) {
		told = append(told, fmt.Sprintf("set %v %s", old != nil, now.UID))
	}, func(pod *corev1.Pod) { told = append(told, "gone "+string(pod.UID)) })
	pod := func(uid types.UID) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: uid}}
	}
	events.OnAdd(pod("1"), false)
	events.OnUpdate(pod("1"), pod("1"))
	events.OnUpdate(pod("1"), pod("2"))
	events.OnDelete(toolscache.DeletedFinalStateUnknown{Key: "a", Obj: pod("2")})
	if diff := cmp.Diff([]string{"set false 1", "set true 1", "gone 1", "set false 2", "gone 2"}, told); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
}
