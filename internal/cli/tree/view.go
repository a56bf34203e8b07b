// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package tree

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// nodeLevel is the level name of nodes if no level of the topology is the hostname.
const nodeLevel = "node"

// view is a hierarchy in which graphs are shown.
type view struct {
	name   string
	levels topology.Levels
	// selector of the hierarchy's nodes.
	selector map[string]string
}

// viewOf returns the hierarchy of a graph: the requested topology, or else the topology by which the graph was placed, or else the topology
// that the graph names. For a graph without a constraint, it is the default topology, or the only topology.
func (s *Scene) viewOf(dgd *nvidiav1beta1.DynamoGraphDeployment, groups []*trellisv1alpha1.ScalingGroup) view {
	if s.Topology != nil {
		return current(s.Topology)
	}
	for _, sg := range groups {
		if t := sg.Spec.Topology; t != nil {
			v := view{name: t.ClusterTopology, selector: t.NodeSelector}
			for _, l := range t.Levels {
				v.levels = append(v.levels, topology.Level{Domain: l.Domain, Key: l.Key})
			}
			return v
		}
	}
	if c := dgd.Spec.TopologyConstraint; c != nil {
		if t := s.World.Topology(c.ClusterTopologyName); t != nil {
			return current(t)
		}
		return view{}
	}
	return s.fallback()
}

// fallback returns the hierarchy for graphs that name no topology.
func (s *Scene) fallback() view {
	switch t := s.DefaultTopology(); {
	case t != nil:
		return current(t)
	case len(s.Topologies) == 1:
		return current(s.Topologies[0])
	}
	return view{}
}

// further adds the topologies of the cluster that are not among the views. If the result would be empty, it consists of a view without
// levels.
func (s *Scene) further(views []view) []view {
	for _, t := range s.Topologies {
		if v := current(t); !slices.ContainsFunc(views, v.equal) {
			views = append(views, v)
		}
	}
	if len(views) == 0 {
		views = append(views, view{})
	}
	return views
}

func current(t *grovev1alpha1.ClusterTopology) view {
	v := view{name: t.Name, selector: t.Spec.NodeSelector}
	for _, l := range t.Spec.Levels {
		v.levels = append(v.levels, topology.Level{Domain: l.Domain, Key: l.Key})
	}
	return v
}

func (v view) equal(o view) bool { return v.name == o.name && slices.Equal(v.levels, o.levels) }

// above returns the levels above single nodes, and the level name of the nodes.
func (v view) above() (levels topology.Levels, node string) {
	last := len(v.levels) - 1
	if last >= 0 && v.levels[last].Key == corev1.LabelHostname {
		return v.levels[:last], v.levels[last].Domain
	}
	return v.levels, nodeLevel
}

// names returns the names of all levels, including the level of nodes.
func (v view) names() []string {
	levels, node := v.above()
	return append(domains(levels), node)
}

func domains(levels topology.Levels) []string {
	names := make([]string, 0, len(levels)+1)
	for _, l := range levels {
		names = append(names, l.Domain)
	}
	return names
}
