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

// nodeLevel is what nodes are called where no level of the topology is the hostname.
const nodeLevel = "node"

// view is one hierarchy to show graphs in.
type view struct {
	name   string
	levels topology.Levels
	// selector of the nodes that belong to it.
	selector map[string]string
}

// viewOf chooses the hierarchy of a graph: the one asked for, the one it was placed by, the one it names, and for a graph
// without a constraint the default topology or the only one.
func (s *Scene) viewOf(dgd *nvidiav1beta1.DynamoGraphDeployment, groups []*trellisv1alpha1.ScalingGroup) view {
	if s.Topology != nil {
		return current(s.Topology)
	}
	for _, sg := range groups {
		if t := sg.Spec.Topology; t != nil {
			v := view{name: t.Profile, selector: t.NodeSelector}
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

// fallback is the hierarchy of whatever names none.
func (s *Scene) fallback() view {
	switch t := s.DefaultTopology(); {
	case t != nil:
		return current(t)
	case len(s.Topologies) == 1:
		return current(s.Topologies[0])
	}
	return view{}
}

// further adds the hierarchies of the cluster that no graph is shown by; without any, one that has no levels.
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

// above returns the levels above single nodes, and what the nodes are called.
func (v view) above() (levels topology.Levels, node string) {
	last := len(v.levels) - 1
	if last >= 0 && v.levels[last].Key == corev1.LabelHostname {
		return v.levels[:last], v.levels[last].Domain
	}
	return v.levels, nodeLevel
}

// names of all levels, nodes included.
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
