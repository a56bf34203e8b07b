// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package whatif

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/trellis-k8s/trellis/internal/placement"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// Obstacle is one host of the closest domain that takes no pod of a refused replica, and what would have to go.
type Obstacle struct {
	Node string
	Why  topology.Exclusion
	// Pods that free capacity for one pod when they are gone, for a resource that is short: the fewest.
	Pods []Occupant
	// TooSmall: it would not even do if all of its pods were gone.
	TooSmall bool
	// own: only pods of the refused graph itself would make it do.
	own bool
}

// Occupant is a pod that stands in the way.
type Occupant struct {
	types.NamespacedName
	// Amount it takes of the resource that is short.
	Amount int64
	// Planned: it is not bound there; capacity is reserved for it, or the same plan put it there.
	Planned bool
}

// Obstacles returns the domain that is easiest to free for a refused replica of the graph, of those that come closest to holding it, and
// the hosts there that take none of its pods, the easiest to free first. It is asked before the plan is rolled back.
func (p *Planner) Obstacles(g Graph, r *placement.Refusal) (topology.Path, []Obstacle) {
	leaf := culprit(r)
	if leaf == nil || leaf.Closest == nil {
		return nil, nil
	}
	tree := p.cluster.Tree(g.Levels, g.selector)
	closest, found := tree.Find(leaf.Closest.Domain)
	if !found {
		return nil, nil
	}
	shape, pods := missing(tree, closest, leaf.Need, g.shapes)
	if shape == nil {
		return nil, nil
	}
	domains := asClose(tree, tree.View(shape), closest, leaf.Within)
	lists := p.obstacles(g, tree, tree.View(shape), domains)
	best := 0
	for i := range lists {
		if cost(lists[i], pods-tree.View(shape).Fit(domains[i])) < cost(lists[best], pods-tree.View(shape).Fit(domains[best])) {
			best = i
		}
	}
	return tree.Path(domains[best]), lists[best]
}

// maxDomains is how many domains are looked at for the one that is easiest to free.
const maxDomains = 128

// asClose are the domains that hold as many pods as the closest one, that one first, the others in path order.
func asClose(tree *topology.Tree, view *topology.View, closest topology.DomainID, within topology.Path) []topology.DomainID {
	domains := []topology.DomainID{closest}
	bound, found := tree.Find(within)
	if !found {
		return domains
	}
	for _, d := range tree.Domains(tree.LevelOf(closest), bound) {
		if d != closest && view.Fit(d) == view.Fit(closest) && len(domains) < maxDomains {
			domains = append(domains, d)
		}
	}
	return domains
}

// obstacles lists the hosts of each domain that take no pod, the easiest to free first.
func (p *Planner) obstacles(g Graph, tree *topology.Tree, view *topology.View, domains []topology.DomainID) [][]Obstacle {
	lists := make([][]Obstacle, len(domains))
	for i, d := range domains {
		tree.AllNodes(d, func(n topology.NodeID) bool {
			if why, excluded := view.Why(n); excluded {
				lists[i] = append(lists[i], Obstacle{Node: p.cluster.NodeName(n), Why: why})
			}
			return true
		})
	}
	occupants := p.occupants(slices.Concat(lists...))
	own := g.names()
	for i, list := range lists {
		for j := range list {
			list[j].chooseOthers(occupants[list[j].Node], own)
		}
		list = slices.DeleteFunc(list, func(o Obstacle) bool { return o.own })
		slices.SortStableFunc(list, func(a, b Obstacle) int { return cmp.Compare(a.effort(), b.effort()) })
		lists[i] = list
	}
	return lists
}

// cost is what it takes to free so many hosts.
func cost(list []Obstacle, hosts int) int {
	if hosts > len(list) {
		return 1 << 30 // there are not enough of them
	}
	sum := 0
	for i := range list[:max(hosts, 0)] {
		sum += list[i].effort()
	}
	return sum
}

// names of all pods of the graph.
func (g *Graph) names() map[types.NamespacedName]bool {
	own := map[types.NamespacedName]bool{}
	for _, r := range g.Replicas {
		for _, pod := range r.Pods {
			own[types.NamespacedName{Namespace: g.Namespace, Name: pod.Name}] = true
		}
	}
	return own
}

// culprit is the part of a gang that does not fit: the innermost cause.
func culprit(r *placement.Refusal) *placement.Refusal {
	for r != nil && r.Cause != nil {
		r = r.Cause
	}
	return r
}

// missing is the shape of which a domain holds too few, and how many are asked for; the first one when each by itself would fit.
func missing(tree *topology.Tree, at topology.DomainID, needs []placement.Need, shapes []*topology.Shape) (shape *topology.Shape, pods int) {
	for _, need := range needs {
		i := slices.IndexFunc(shapes, func(s *topology.Shape) bool { return slices.Equal(s.Requests(), need.Requests) })
		if i < 0 {
			continue
		}
		if tree.View(shapes[i]).Fit(at) < need.Pods {
			return shapes[i], need.Pods
		}
		if shape == nil {
			shape, pods = shapes[i], need.Pods
		}
	}
	return shape, pods
}

// occupant is a pod on a node, with all it takes.
type occupant struct {
	Occupant
	requests []topology.Request
}

// occupants returns the pods on the listed hosts that are short of a resource.
func (p *Planner) occupants(list []Obstacle) map[string][]occupant {
	out := map[string][]occupant{}
	for _, o := range list {
		if o.Why.Kind == topology.KindResource {
			out[o.Node] = []occupant{}
		}
	}
	for _, pod := range p.world.Pods {
		if on, wanted := out[pod.Spec.NodeName]; wanted && pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed {
			out[pod.Spec.NodeName] = append(on, occupant{Occupant{NamespacedName: nameOf(pod)}, topology.ShapeOf(pod).Requests()})
		}
	}
	p.cluster.Reservations(func(id, node string, s *topology.Shape) {
		if on, wanted := out[node]; wanted {
			out[node] = append(on, occupant{Occupant{NamespacedName: p.nameOf(id), Planned: true}, s.Requests()})
		}
	})
	return out
}

// nameOf is the name behind an ID: of a pod that exists, or of one that is still to be made.
func (p *Planner) nameOf(id string) types.NamespacedName {
	if name, known := p.index.names[id]; known {
		return name
	}
	namespace, name, _ := strings.Cut(id, "/")
	return types.NamespacedName{Namespace: namespace, Name: name}
}

// chooseOthers chooses among the pods of others: nothing is gained by freeing a host of the graph for the graph.
func (o *Obstacle) chooseOthers(pods []occupant, own map[types.NamespacedName]bool) {
	o.choose(slices.Clone(pods))
	if !slices.ContainsFunc(o.Pods, func(one Occupant) bool { return own[one.NamespacedName] }) {
		return
	}
	o.Pods = nil
	o.choose(slices.DeleteFunc(pods, func(one occupant) bool { return own[one.NamespacedName] }))
	o.own, o.TooSmall = o.TooSmall, false
}

// choose picks the fewest pods that free capacity for one: the smallest that does alone, or else the largest ones.
func (o *Obstacle) choose(pods []occupant) {
	if o.Why.Kind != topology.KindResource {
		return
	}
	for i := range pods {
		pods[i].Amount = amount(pods[i].requests, o.Why.Detail)
	}
	pods = slices.DeleteFunc(pods, func(pod occupant) bool { return pod.Amount == 0 })
	slices.SortFunc(pods, func(a, b occupant) int {
		return cmp.Or(cmp.Compare(b.Amount, a.Amount), strings.Compare(a.String(), b.String()))
	})
	short := o.Why.Need - o.Why.Have
	for i := range slices.Backward(pods) {
		if pods[i].Amount >= short {
			o.Pods = []Occupant{pods[i].Occupant}
			return
		}
	}
	for _, pod := range pods {
		if short <= 0 {
			return
		}
		o.Pods, short = append(o.Pods, pod.Occupant), short-pod.Amount
	}
	if short > 0 {
		o.Pods, o.TooSmall = nil, true
	}
}

func amount(requests []topology.Request, resource string) int64 {
	if resource == string(corev1.ResourcePods) {
		return 1
	}
	for _, r := range requests {
		if r.Name == resource {
			return r.Amount
		}
	}
	return 0
}

// effort ranks hosts: one command, then as many pods as have to go, then what no pod's end helps, then what is no host for such pods at all: it is
// too small, or their selector or affinity leaves it out.
func (o *Obstacle) effort() int {
	switch {
	case o.Why.Kind == topology.KindCordoned:
		return 0
	case o.TooSmall || o.Why.Kind == topology.KindNodeSelector || o.Why.Kind == topology.KindNodeAffinity:
		return 1 << 20
	case o.Why.Kind != topology.KindResource:
		return 1 << 10
	}
	return len(o.Pods)
}
