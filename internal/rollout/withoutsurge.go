// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"slices"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
)

// InPlace returns the bounds of an update that gets no quota for surplus replicas: at least one replica may be missing, and no surplus
// replica is created.
func (b Bounds) InPlace() Bounds { return Bounds{MaxUnavailable: max(1, b.MaxUnavailable)} }

// InPlace reports whether the update of a group to its revision continues in place, because Kueue had no quota for a surplus replica.
func InPlace(sg *trellisv1alpha1.ScalingGroup) bool {
	p := sg.Status.Progress
	return p != nil && p.InPlace && p.Revision == sg.Spec.Revision
}

// LacksQuota reports whether an update lacks only quota and could continue within its existing quota. This is true if no replica may be
// missing, all wanted replicas serve and will leave their quota to their successors, and all other replicas wait for quota that their queue
// does not have. At most one replica is then missing at a time. LacksQuota returns false if a replica of the new revision has quota. The
// outdated replica that the new replica replaces frees quota, so the lack may be temporary.
func (g Group) LacksQuota(replicas []Replica) bool {
	if !g.onlyBySurge() || g.Replicas == 0 || count(replicas, isAvailable) != g.Replicas {
		return false
	}
	// replaced reports whether a replica leaves its quota to its successor.
	replaced := func(r Replica) bool { return isAvailable(r) && r.Outdated && r.KeepsQuota }
	holdsUp := func(r Replica) bool { return !r.denied() && r.State != Lost && !replaced(r) }
	return slices.ContainsFunc(replicas, Replica.denied) && !slices.ContainsFunc(replicas, holdsUp)
}

// onlyBySurge reports whether the running update may replace a replica only after its successor serves.
func (g Group) onlyBySurge() bool {
	return !g.Recreate && !g.Stopped && (g.Step == nil || !g.Step.Paused) && g.MaxUnavailable <= 0
}
