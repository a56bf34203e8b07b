// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
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
