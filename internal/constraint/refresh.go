// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package constraint

import (
	"maps"
	"slices"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
)

// Refreshed returns the frozen constraints of a deployment with the current levels and node selector of their ClusterTopology. It returns
// nil when nothing has changed. It also returns nil when the constraints do not fit the current topology: a level in use is gone or has
// moved, or annotations name a level by its former key. It also returns nil for constraints from several topologies: they are default
// topologies, which never block a deployment.
func Refreshed(frozen map[string]*trellisv1alpha1.ResolvedTopology, stated Statement, now *grovev1alpha1.ClusterTopology,
) map[string]*trellisv1alpha1.ResolvedTopology {
	if now == nil || now.DeletionTimestamp != nil {
		return nil
	}
	current := newBase(now)
	out, changed := map[string]*trellisv1alpha1.ResolvedTopology{}, false
	for component, was := range frozen {
		if was == nil {
			out[component] = nil
			continue
		}
		if was.ClusterTopology != now.Name || !keepsOrder(was, current) || !keepsAnnotated(was, stated, current) {
			return nil
		}
		is := was.DeepCopy()
		is.Levels, is.NodeSelector = slices.Clone(current.Levels), maps.Clone(current.NodeSelector)
		changed = changed || !SameLevels(was, is)
		out[component] = is
	}
	if !changed {
		return nil
	}
	return out
}

// SameLevels reports whether two constraints have the same levels and the same node selector.
func SameLevels(a, b *trellisv1alpha1.ResolvedTopology) bool {
	return slices.Equal(a.Levels, b.Levels) && maps.Equal(a.NodeSelector, b.NodeSelector)
}

// Mixed reports whether constraints of one deployment have different levels of the same ClusterTopology, because a refresh is partly
// written.
func Mixed(groups []*trellisv1alpha1.ScalingGroup) bool {
	first := map[string]*trellisv1alpha1.ResolvedTopology{}
	for _, sg := range groups {
		t := sg.Spec.Topology
		if t == nil {
			continue
		}
		if before, seen := first[t.ClusterTopology]; seen && !SameLevels(before, t) {
			return true
		}
		first[t.ClusterTopology] = t
	}
	return false
}

// keepsOrder reports whether other has all levels that a constraint uses, in the same order.
func keepsOrder(t, other *trellisv1alpha1.ResolvedTopology) bool {
	used := []string{
		t.GraphPackDomain, t.GraphPreferredPackDomain, t.PackDomain, t.PreferredPackDomain, t.SpreadDomain, t.PreferredSpreadDomain,
		t.KVTransferDomain,
	}
	last := -1
	for _, level := range t.Levels {
		if !slices.Contains(used, level.Domain) {
			continue
		}
		at := Level(other, level.Domain)
		if at <= last {
			return false
		}
		last = at
	}
	return true
}

// keepsAnnotated reports whether the label keys in a deployment's annotations still match the levels of its constraint. A constraint that
// does not come from annotations always matches.
func keepsAnnotated(t *trellisv1alpha1.ResolvedTopology, stated Statement, now *trellisv1alpha1.ResolvedTopology) bool {
	if stated.ByFields || !stated.Annotated.Set() || t.Automatic {
		return true
	}
	return Key(now, t.GraphPackDomain) == stated.Annotated.Required && Key(now, t.GraphPreferredPackDomain) == stated.Annotated.Preferred
}
