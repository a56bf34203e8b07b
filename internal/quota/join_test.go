// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
)

// A successor joins the Workload that its replica has, also where the base has space.
func TestOwnWorkloadBeforeTheBase(t *testing.T) {
	work := group("work", 2, 1, "8")
	w := newWorld(t, group("front", 1, 1, "0"), work)
	w.make(w.groups[0], 0)
	w.make(work, 0, 1)
	w.expect("made", "+g-base front-mainx1 work-mainx1", "+g-work-1 work-mainx1")
	w.gone(work, 0)
	w.gone(work, 1)
	w.make(work, 1, 0)
	w.expect("both are lost, and are back")
	if second, first := w.pods[len(w.pods)-2], w.pods[len(w.pods)-1]; short(WorkloadOf(second)) != "g-work-1" || short(WorkloadOf(first)) != "g-base" {
		t.Errorf("the second is in %s, the first in %s", WorkloadOf(second), WorkloadOf(first))
	}
}

// A Workload that Kueue has finished with is no one's to join.
func TestFinishedWorkloadIsNotJoined(t *testing.T) {
	work := group("work", 2, 1, "8")
	w := newWorld(t, work)
	w.make(work, 0, 1)
	w.step()
	w.gone(work, 0)
	w.gone(work, 1)
	set(w.workloads[1], workloadFinished, metav1.ConditionTrue, "out of sync")
	w.make(work, 1)
	if got := WorkloadOf(w.pods[0]); short(got) != "g-base" {
		t.Errorf("it is in %s", got)
	}
}

// A replica has no quota of its own while its pods are in the base.
func TestOwnWorkloadOfAReplicaInTheBase(t *testing.T) {
	work := group("work", 2, 1, "8")
	w := newWorld(t, work)
	w.make(work, 0, 1)
	w.step()
	w.gone(work, 0)
	w.gone(work, 1)
	all := w.workloads
	w.workloads = all[:1] // the other is not in the cache yet
	w.make(work, 1)
	w.workloads = all
	w.expect("the second is in the base", "-g-work-1")
}

// The base is asked for when all scaling groups exist: its podsets cannot be changed.
func TestBaseWaitsForAllGroups(t *testing.T) {
	front, work := group("front", 1, 1, "0"), group("work", 1, 1, "8")
	w := newWorld(t, work)
	w.dgd.Spec.Components = []nvidiav1beta1.ComponentSpec{{Name: "front"}, {Name: "work"}}
	w.make(work, 0)
	w.expect("one group is missing")
	w.groups = append(w.groups, front)
	w.expect("all are there", "+g-base front-mainx1 work-mainx1")
}

// A successor keeps the quota of its predecessor where it asks for the same: in the base, or in the Workload of its replica.
func TestQuotaOfSuccessors(t *testing.T) {
	type standing struct{ Denied, Keeps bool }
	both := func(s standing) [2]standing { return [2]standing{s, s} }
	for name, tc := range map[string]struct {
		change func(w *world, work *trellisv1alpha1.ScalingGroup)
		want   [2]standing // of the replica in the base, and of the other
	}{
		"admitted": {func(*world, *trellisv1alpha1.ScalingGroup) {}, both(standing{Keeps: true})},
		"another image": {func(_ *world, work *trellisv1alpha1.ScalingGroup) {
			work.Spec.Roles[0].Template.Spec.Containers[0].Image = "app:2"
		}, both(standing{Keeps: true})},
		"other requests": {func(_ *world, work *trellisv1alpha1.ScalingGroup) {
			work.Spec.Roles[0].Template.Spec.Containers[0].Resources.Requests = corev1.ResourceList{"gpu": resource.MustParse("4")}
		}, both(standing{})},
		"evicted": {func(w *world, _ *trellisv1alpha1.ScalingGroup) {
			for _, one := range w.workloads {
				one.Status.Conditions = nil
				set(one, workloadReserved, metav1.ConditionFalse, "no quota")
			}
		}, both(standing{Denied: true})},
		"evicted, and not looked at since": {func(w *world, _ *trellisv1alpha1.ScalingGroup) {
			for _, one := range w.workloads {
				one.Status.Conditions = nil
				set(one, workloadReserved, metav1.ConditionFalse, "no place")
				set(one, workloadEvicted, metav1.ConditionTrue, "no place")
			}
		}, both(standing{})},
		"evicted, and without quota since": {func(w *world, _ *trellisv1alpha1.ScalingGroup) {
			for _, one := range w.workloads {
				one.Status.Conditions = nil
				set(one, workloadReserved, metav1.ConditionFalse, "no quota")
				set(one, workloadEvicted, metav1.ConditionTrue, "no place")
			}
		}, both(standing{Denied: true})},
		"it asks for none": {func(w *world, _ *trellisv1alpha1.ScalingGroup) {
			for _, one := range w.workloads {
				one.Status.Conditions = nil
				set(one, workloadReserved, metav1.ConditionFalse, "no quota")
				one.Spec.Active = ptr.To(false)
			}
		}, both(standing{})},
		"not looked at": {func(w *world, _ *trellisv1alpha1.ScalingGroup) {
			for _, one := range w.workloads {
				one.Status.Conditions = nil
			}
		}, both(standing{})},
		"finished": {func(w *world, _ *trellisv1alpha1.ScalingGroup) {
			set(w.workloads[1], workloadFinished, metav1.ConditionTrue, "")
		}, [2]standing{{Keeps: true}, {}}},
		"unknown": {func(w *world, _ *trellisv1alpha1.ScalingGroup) { w.workloads = nil }, both(standing{})},
	} {
		t.Run(name, func(t *testing.T) {
			work := group("work", 2, 1, "8")
			w := newWorld(t, work)
			w.make(work, 0, 1)
			w.step()
			for _, one := range w.workloads {
				set(one, workloadReserved, metav1.ConditionTrue, "")
				set(one, workloadAdmitted, metav1.ConditionTrue, "")
				one.Spec.Active = nil
			}
			tc.change(w, work)
			j := Join(work, w.groups, w.pods, w.workloads)
			for i, pod := range w.pods {
				if got := (standing{j.Denied(pod), j.Keeps(pod)}); got != tc.want[i] {
					t.Errorf("replica %d: %+v, want %+v", i, got, tc.want[i])
				}
			}
		})
	}
}
