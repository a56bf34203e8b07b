// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package grove

import (
	"fmt"
	"maps"
	"slices"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/constraint"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// Strays reports pods outside their required domains.
type Strays struct {
	// Graph: some pods are outside the deployment's domain. If Graph is false, Message is about replicas and components, or is "".
	Graph   bool
	Message string
}

// FindStrays finds pods outside their required domains. Grove's scheduler enforces a required domain when it places an entire gang. But it
// places a recreated pod alone, without regard to running pods, so the pod may run in another rack or zone. FindStrays therefore checks
// every level, also for the first replica. The home domain of a graph, component or replica is the domain with most of its pods, and pods
// in any other domain are outside. If several domains have the most pods, the home domain is the domain of the oldest pod.
func FindStrays(groups []*trellisv1alpha1.ScalingGroup, places []gang.PodPlace) Strays {
	var out Strays
	t := constraint.TopologyOf(groups)
	required := constraint.OfGraph(t).Required
	if required != "" {
		if home, away := split(places, constraint.Level(t, required)); len(away) > 0 {
			out.Graph = true
			out.Message = fmt.Sprintf("the deployment is in %s %s, but Grove placed %s (%d of %d pods); %s",
				required, home, list(described(groups, away, constraint.Level(t, required))), len(away), known(places, constraint.Level(t, required)),
				fixOfGraph(groups, away))
		}
	}
	var parts []string
	for _, sg := range render.SortedGroups(groups) {
		unit := constraint.OfComponent(sg.Spec.Topology).Required
		if unit == "" || unit == required {
			continue
		}
		level := constraint.Level(sg.Spec.Topology, unit)
		for _, of := range units(sg, places) {
			if home, away := split(of, level); len(away) > 0 {
				parts = append(parts, fmt.Sprintf("%s is in %s %s, but Grove placed %d of its %d pods in %s",
					unitName(sg, of[0]), unit, home, len(away), known(of, level), list(domains(away, level))))
			}
		}
	}
	if len(parts) > 0 {
		if out.Message != "" {
			out.Message += "; "
		}
		out.Message += list(parts) + "; delete all of its pods together, so that they are placed as one gang, or use another provider"
	}
	return out
}

// split returns the home domain, which is the domain at this level with most pods, and the pods outside it. split ignores pods whose place
// is unknown.
func split(places []gang.PodPlace, level int) (home topology.Path, away []gang.PodPlace) {
	home = gang.Home(places, level)
	for _, p := range places {
		if p.Domain.Level() >= level && !home.Contains(p.Domain) {
			away = append(away, p)
		}
	}
	return home, away
}

func known(places []gang.PodPlace, level int) int {
	n := 0
	for _, p := range places {
		if p.Domain.Level() >= level {
			n++
		}
	}
	return n
}

// units returns the groups of a component's pods that must be in one domain: the pods of each replica if multinode, otherwise all pods.
func units(sg *trellisv1alpha1.ScalingGroup, places []gang.PodPlace) [][]gang.PodPlace {
	by := map[int32][]gang.PodPlace{}
	for _, p := range places {
		if p.Component == sg.Spec.Component {
			by[p.Replica] = append(by[p.Replica], p)
		}
	}
	out := make([][]gang.PodPlace, 0, len(by))
	for _, replica := range slices.Sorted(maps.Keys(by)) {
		out = append(out, by[replica])
	}
	return out
}

func unitName(sg *trellisv1alpha1.ScalingGroup, p gang.PodPlace) string {
	if sg.Spec.Multinode {
		return fmt.Sprintf("%s-%d", p.Component, p.Replica)
	}
	return p.Component
}

// described returns the names of the pods' replicas, each with its domain.
func described(groups []*trellisv1alpha1.ScalingGroup, places []gang.PodPlace, level int) []string {
	var out []string
	for _, p := range places {
		for _, sg := range groups {
			if sg.Spec.Component == p.Component {
				out = append(out, fmt.Sprintf("%s in %s", unitName(sg, p), p.Domain.Truncate(level)))
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func domains(places []gang.PodPlace, level int) []string {
	var out []string
	for _, p := range places {
		out = append(out, p.Domain.Truncate(level).String())
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// fixOfGraph returns the advice for pods outside the graph's domain. Deleting all pods together helps if such a pod belongs to the base
// gang. It does not help for later replicas, which Grove places as separate gangs.
func fixOfGraph(groups []*trellisv1alpha1.ScalingGroup, away []gang.PodPlace) string {
	for _, p := range away {
		for _, sg := range groups {
			if sg.Spec.Component == p.Component && (!sg.Spec.Multinode || p.Replica == 0) {
				return "delete all pods of the deployment together, so that they are placed as one gang, or use another provider"
			}
		}
	}
	return "scale the component down to move them, or use another provider"
}
