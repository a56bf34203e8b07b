// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// MaxPlaces is the maximum number of listed replicas of one component.
const MaxPlaces = 64

// Places are the domains of the bound replicas of a graph, by the current labels of their nodes. The record, by contrast, has the domains
// to which pods are pinned. The recorded and the current domain can differ, because labels change under running pods.
type Places struct {
	// Components lists the bound replicas with the lowest ordinals, at most [MaxPlaces] of each component. It omits replicas in no domain.
	Components map[string][]nvidiav1beta1.ReplicaPlacement
	// Domain is the domain of the level that the graph requires, if it holds all bound replicas that are in a domain; empty otherwise.
	Domain topology.Path
}

// PlacesOf returns the places of a graph.
func PlacesOf(c *topology.Cluster, o Observation) Places {
	f := placesFinder{o: &o, cluster: c}
	f.out.Components = map[string][]nvidiav1beta1.ReplicaPlacement{}
	byGroup := podsByGroup(o.Pods)
	for _, sg := range render.SortedGroups(o.Groups) {
		if sg.Spec.Topology != nil && specs.Named(sg.Spec.Provider).Planned {
			f.add(sg, byGroup[string(sg.UID)])
		}
	}
	if f.several {
		f.out.Domain = nil
	}
	return f.out
}

type placesFinder struct {
	o       *Observation
	cluster *topology.Cluster
	// several: the replicas are not all in one domain of the level that the graph requires.
	several bool
	out     Places
}

func (f *placesFinder) add(sg *trellisv1alpha1.ScalingGroup, pods []*corev1.Pod) {
	levels := LevelsOf(sg.Spec.Topology)
	level := levels.Index(sg.Spec.Topology.GraphPackDomain)
	byOrdinal, listed := podsByOrdinal(pods), 0
	for _, ordinal := range slices.Sorted(maps.Keys(byOrdinal)) {
		domain := f.domainOf(sg, levels, byOrdinal[ordinal])
		if len(domain) == 0 {
			continue
		}
		if listed++; listed <= MaxPlaces {
			f.out.Components[sg.Spec.Component] = append(f.out.Components[sg.Spec.Component],
				nvidiav1beta1.ReplicaPlacement{Replica: int32(ordinal), Domain: domain.String()})
		}
		if level == topology.NoLevel {
			continue
		}
		shared := domain.Truncate(level)
		f.several = f.several || len(domain) <= level || f.out.Domain != nil && !f.out.Domain.Equal(shared)
		f.out.Domain = shared
	}
}

// domainOf returns the narrowest domain that holds all pods of a replica; empty unless all of them are bound.
func (f *placesFinder) domainOf(sg *trellisv1alpha1.ScalingGroup, levels topology.Levels, pods []*corev1.Pod) topology.Path {
	gone := func(pod *corev1.Pod) bool { return Leaving(pod) || f.o.superseded(sg, pod) }
	if len(pods) != render.ReplicaSize(sg, pods[0]) || slices.ContainsFunc(pods, gone) {
		return nil
	}
	shared, _ := SharedDomain(levels, pods, f.cluster.NodeLabels)
	return shared
}
