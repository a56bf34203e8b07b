// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/limit"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// Outside describes a replica, or a single-node component, with pods outside a domain that a constraint requires, by the current labels of
// the pods' nodes. This happens when labels change under running pods, or when clients other than Trellis place pods. Running pods stay
// where they are.
type Outside struct {
	// Code is a reason of the condition Placed.
	Code string
	// Message begins with the name of the replica or the component.
	Message string
}

// maxOutside is the maximum number of replicas that a message names, and the maximum number of domains that it lists for each replica.
const maxOutside = 3

// IsOutside reports whether a reason of the condition Placed is about pods that run outside their domain.
func IsOutside(code string) bool {
	return code == CodeOutsideGraphDomain || code == CodeOutsideReplicaDomain
}

// OutsideCode returns the code of the replica with which [OutsideMessage] begins.
func OutsideCode(list []Outside) string { return list[0].Code }

// OutsideMessage names the first replicas with pods outside their domain, and counts the other replicas.
func OutsideMessage(list []Outside) string {
	named := make([]string, 0, maxOutside)
	for _, one := range list[:min(len(list), maxOutside)] {
		named = append(named, one.Message)
	}
	return "by the labels of their nodes, " + limit.Join(named, len(list), maxOutside, "; ") + "; running pods stay"
}

// FindOutside returns the replicas, and single-node components, with bound pods outside a required domain. If the graph requires a level,
// graphDomain is the required domain of all pods. If a component requires a level, the required domain of a replica or single-node
// component is the domain to which its pods are pinned, because later pods follow the pins of existing pods. Without graphDomain or pins,
// the required domain is the domain with the most pods.
func FindOutside(c *topology.Cluster, o Observation, graphDomain topology.Path) []Outside {
	f, pods := outsideFinder{cluster: c, domains: map[string]topology.Path{}}, podsByGroup(o.Pods)
	var groups []boundGroup
	var all []PodPlace
	for _, sg := range render.SortedGroups(o.Groups) {
		if t := sg.Spec.Topology; render.Gated(sg) && t != nil && (t.GraphPackDomain != "" || t.PackDomain != "") {
			g := f.bound(sg, pods[string(sg.UID)])
			groups, all = append(groups, g), append(all, g.places...)
		}
	}
	for _, g := range groups {
		away := f.outsideGraph(g, all, graphDomain)
		f.outsideUnits(g, away)
	}
	return f.out
}

type outsideFinder struct {
	cluster *topology.Cluster
	// domains are the domains of nodes, by node name; all groups of a graph have the same levels.
	domains map[string]topology.Path
	out     []Outside
}

// boundGroup is a scaling group with its bound pods, sorted, and the place of each pod.
type boundGroup struct {
	boundPods
	sg     *trellisv1alpha1.ScalingGroup
	levels topology.Levels
}

// boundPods are the bound pods of a replica or of a group. name is the name of the replica or group in messages.
type boundPods struct {
	name   string
	pods   []*corev1.Pod
	places []PodPlace
}

// bound returns a group with its bound pods. It omits pods whose Node objects do not exist, because these pods are lost.
func (f *outsideFinder) bound(sg *trellisv1alpha1.ScalingGroup, pods []*corev1.Pod) boundGroup {
	g := boundGroup{boundPods{name: sg.Spec.Component}, sg, LevelsOf(sg.Spec.Topology)}
	g.pods = slices.DeleteFunc(slices.Clone(pods), func(pod *corev1.Pod) bool {
		_, _, ok := render.ReplicaOf(pod)
		return !ok || pod.Spec.NodeName == "" || Leaving(pod) || f.cluster.NodeLabels(pod.Spec.NodeName) == nil
	})
	slices.SortFunc(g.pods, func(a, b *corev1.Pod) int {
		inA, indexA, _ := render.ReplicaOf(a)
		inB, indexB, _ := render.ReplicaOf(b)
		return cmp.Or(cmp.Compare(inA, inB), cmp.Compare(indexA, indexB))
	})
	for _, pod := range g.pods {
		domain, known := f.domains[pod.Spec.NodeName]
		if !known {
			domain = g.levels.PathOf(f.cluster.NodeLabels(pod.Spec.NodeName))
			f.domains[pod.Spec.NodeName] = domain
		}
		ordinal, _, _ := render.ReplicaOf(pod)
		g.places = append(g.places, PodPlace{Component: sg.Spec.Component, Replica: ordinal, Made: pod.CreationTimestamp.Time, Domain: domain})
	}
	return g
}

// replicas returns the pods of each replica.
func (g boundGroup) replicas() (out []boundPods) {
	for first, end := 0, 0; first < len(g.places); first = end {
		for end = first; end < len(g.places) && g.places[end].Replica == g.places[first].Replica; {
			end++
		}
		name := fmt.Sprintf("%s-%d", g.name, g.places[first].Replica)
		out = append(out, boundPods{name, g.pods[first:end], g.places[first:end]})
	}
	return out
}

// outsideGraph adds to the result each replica of a group that has pods outside the graph domain. It returns the names of these replicas.
func (f *outsideFinder) outsideGraph(g boundGroup, all []PodPlace, graphDomain topology.Path) map[string]bool {
	names, level := map[string]bool{}, g.levels.Index(g.sg.Spec.Topology.GraphPackDomain)
	if level == topology.NoLevel {
		return names
	}
	home := graphDomain.Truncate(level)
	if home.Level() < level {
		home = Home(all, level)
	}
	for _, replica := range g.replicas() {
		if f.note(CodeOutsideGraphDomain, replica, "the deployment's "+g.levels.Name(level), level, home) {
			names[replica.name] = true
		}
	}
	return names
}

// outsideUnits adds to the result each unit of a group that has pods outside the unit's domain. A unit is a replica of a multinode group,
// or an entire single-node group. outsideUnits skips the units in noted, which the result already has.
func (f *outsideFinder) outsideUnits(g boundGroup, noted map[string]bool) {
	t := g.sg.Spec.Topology
	level := g.levels.Index(t.PackDomain)
	if level == topology.NoLevel || t.PackDomain == t.GraphPackDomain {
		return
	}
	units := []boundPods{g.boundPods}
	if g.sg.Spec.Multinode {
		units = g.replicas()
	}
	for _, unit := range units {
		if !noted[unit.name] {
			f.note(CodeOutsideReplicaDomain, unit, g.levels.Name(level), level, g.home(unit, level))
		}
	}
}

// home returns the domain of a level that must hold the pods of a unit: the pinned domain or, without pins, the domain with the most pods.
// A multinode replica may be recreated as a unit in any domain, so its pinned domain counts only if it contains one of the replica's pods.
func (g boundGroup) home(unit boundPods, level int) topology.Path {
	for _, pod := range unit.pods {
		pinned := g.levels.PathOf(pod.Spec.NodeSelector).Truncate(level)
		if pinned.Level() < level {
			continue
		}
		if !g.sg.Spec.Multinode || slices.ContainsFunc(unit.places, func(p PodPlace) bool { return pinned.Contains(p.Domain) }) {
			return pinned
		}
		break
	}
	return Home(unit.places, level)
}

// note adds a replica or group to the result, and returns true, if some of its pods are outside home. home is a domain of the level; nil if
// no pod is in a domain of the level. In this case, all pods are outside.
func (f *outsideFinder) note(code string, pods boundPods, levelName string, level int, home topology.Path) bool {
	away := slices.DeleteFunc(slices.Clone(pods.places), func(p PodPlace) bool { return home != nil && home.Contains(p.Domain) })
	if len(away) == 0 {
		return false
	}
	message := fmt.Sprintf("%s has %d of %d pods", pods.name, len(away), len(pods.places))
	if home != nil {
		message += fmt.Sprintf(" outside %s %s", levelName, home)
	}
	f.out = append(f.out, Outside{code, message + ", in " + domainsText(away, level, levelName)})
	return true
}

// domainsText lists the domains of a level that contain pods.
func domainsText(places []PodPlace, level int, levelName string) string {
	var names []string
	for _, p := range places {
		name := "no " + levelName
		if p.Domain.Level() >= level {
			name = p.Domain.Truncate(level).String()
		}
		names = append(names, name)
	}
	slices.Sort(names)
	names = slices.Compact(names)
	return limit.Join(names, len(names), maxOutside, ", ")
}
