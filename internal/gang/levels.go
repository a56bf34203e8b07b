// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"fmt"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/constraint"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// LevelsOf returns the levels of a frozen topology in the planner's terms; nil without a topology.
func LevelsOf(t *trellisv1alpha1.ResolvedTopology) topology.Levels {
	if t == nil {
		return nil
	}
	levels := make(topology.Levels, 0, len(t.Levels))
	for _, level := range t.Levels {
		levels = append(levels, topology.Level{Domain: level.Domain, Key: level.Key})
	}
	return levels
}

// MovesPods reports whether a change of a node's labels changes the domain of the group's pods on that node.
func MovesPods(sg *trellisv1alpha1.ScalingGroup, before, now map[string]string) bool {
	levels := LevelsOf(sg.Spec.Topology)
	return !levels.PathOf(before).Equal(levels.PathOf(now))
}

// LevelsOfClusterTopology returns the levels of a ClusterTopology in the planner's terms.
func LevelsOfClusterTopology(ct *grovev1alpha1.ClusterTopology) topology.Levels {
	levels := make(topology.Levels, 0, len(ct.Spec.Levels))
	for _, level := range ct.Spec.Levels {
		levels = append(levels, topology.Level{Domain: level.Domain, Key: level.Key})
	}
	return levels
}

// lostLevels names the levels that the constraint of a component requires and the ClusterTopology no longer offers
// (docs/placement.md#when-something-breaks); "" for a level that is still offered.
type lostLevels struct {
	graph, component, spread string
}

// blocks returns the lost level that prevents the placement of a replica; "" for none. A lost level does not matter if the graph, unit or
// replica that requires it is already anchored.
func (l lostLevels) blocks(graphAnchored, unitAnchored, replicaAnchored bool) string {
	if l.graph != "" && !graphAnchored {
		return l.graph
	}
	if l.component != "" && !unitAnchored {
		return l.component
	}
	if !replicaAnchored {
		return l.spread
	}
	return ""
}

// lostLevel returns the levels that a component requires and the current ClusterTopology does not offer.
func lostLevel(frozen *trellisv1alpha1.ResolvedTopology, ct *grovev1alpha1.ClusterTopology) lostLevels {
	if frozen == nil {
		return lostLevels{}
	}
	lost := lostLevels{}
	if !Available(frozen, ct, frozen.GraphPackDomain) {
		lost.graph = frozen.GraphPackDomain
	}
	if !Available(frozen, ct, frozen.PackDomain) {
		lost.component = frozen.PackDomain
	}
	if !Available(frozen, ct, frozen.SpreadDomain) {
		lost.spread = frozen.SpreadDomain
	}
	return lost
}

// OtherKey returns the frozen and the current node label key of a level, if they differ.
func OtherKey(frozen *trellisv1alpha1.ResolvedTopology, ct *grovev1alpha1.ClusterTopology, domain string) (was, now string,
	differ bool) {
	if frozen == nil || ct == nil || ct.DeletionTimestamp != nil {
		return "", "", false
	}
	was = constraint.Key(frozen, domain)
	for _, level := range ct.Spec.Levels {
		if level.Domain == domain && was != "" {
			return was, level.Key, was != level.Key
		}
	}
	return "", "", false
}

// unavailable explains why replicas that need a level are not placed: the ClusterTopology lacks the level or offers it with another key.
func unavailable(frozen *trellisv1alpha1.ResolvedTopology, ct *grovev1alpha1.ClusterTopology, level string) string {
	if was, now, differ := OtherKey(frozen, ct, level); differ {
		return fmt.Sprintf("level '%s' has the key %s now, and pods are placed by its former key %s: restore it, or recreate the deployment",
			level, now, was)
	}
	return fmt.Sprintf("level '%s' is not available in %s %q; nothing is placed without it, so it waits until the level is back",
		level, ct.Source(), frozen.ClusterTopology)
}

// Available reports whether a frozen level still has its meaning: the ClusterTopology has the level with the same key, and all remaining
// levels that were above it are still above it. The empty level ("") is always available.
func Available(frozen *trellisv1alpha1.ResolvedTopology, ct *grovev1alpha1.ClusterTopology, domain string) bool {
	if domain == "" {
		return true
	}
	if ct == nil || ct.DeletionTimestamp != nil {
		return false
	}
	now := map[string]int{}
	for i, level := range ct.Spec.Levels {
		now[level.Domain] = i
	}
	last := -1
	for _, level := range frozen.Levels {
		at, exists := now[level.Domain]
		if level.Domain == domain {
			return exists && ct.Spec.Levels[at].Key == level.Key && at > last
		}
		if exists {
			last = max(last, at)
		}
	}
	return false
}
