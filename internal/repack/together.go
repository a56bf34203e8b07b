// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package repack

import (
	"slices"
	"strings"

	"github.com/trellis-k8s/trellis/internal/placement"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// together plans a gang (nil for none) in a domain and new places for the moving replicas, all at once. For this plan, it removes the
// replicas from the cluster copy. It returns nil if there is no place for all of them.
func (p *Place) together(gang *placement.Group, domain topology.Path, moving []*Replica, o placement.Options) *placement.GroupResult {
	var groups []*placement.Group
	if gang != nil {
		groups = append(groups, bounded(gang, domain))
	}
	return p.planned(append(groups, p.groupsOf(moving)...), moving, o)
}

// whileRunning plans a gang in a domain, and for each moving replica a new place that is free while all of these replicas run. It first
// plans the gang on a copy without the replicas, and then the replicas' new places on a copy that includes the replicas. If this fails, it
// plans the replicas before the gang.
func (p *Place) whileRunning(gang *placement.Group, domain topology.Path, moving []*Replica, o placement.Options) *placement.GroupResult {
	waiting, replicas := []*placement.Group{bounded(gang, domain)}, p.groupsOf(moving)
	if first := p.planned(waiting, moving, o); first != nil {
		if then := p.planned(replicas, nil, o, placed{waiting, first}); then != nil {
			return &placement.GroupResult{Groups: slices.Concat(first.Groups, then.Groups)}
		}
	}
	if first := p.planned(replicas, nil, o); first != nil {
		if then := p.planned(waiting, moving, o, placed{replicas, first}); then != nil {
			return &placement.GroupResult{Groups: slices.Concat(then.Groups, first.Groups)}
		}
	}
	return nil
}

// placed are groups with their places.
type placed struct {
	groups []*placement.Group
	at     *placement.GroupResult
}

// planned plans groups on the cluster copy without the replicas in "off", and with the places in "others" reserved.
func (p *Place) planned(groups []*placement.Group, off []*Replica, o placement.Options, others ...placed) *placement.GroupResult {
	p.Cluster.Begin()
	defer p.Cluster.Rollback()
	p.takeOff(off)
	for _, other := range others {
		for i, g := range other.groups {
			p.assume(g, other.at.Groups[i])
		}
	}
	root := &placement.Group{Required: topology.NoLevel, Preferred: topology.NoLevel, Groups: groups}
	return placement.PlanTogether(p.Cluster, p.Levels, p.NodeSelector, root, o)
}

// bounded returns a copy of a gang that must stay in the given domain, or in the gang's own domain if that is narrower.
func bounded(gang *placement.Group, domain topology.Path) *placement.Group {
	bound := *gang
	if len(bound.Within) <= len(domain) {
		bound.Within = domain
	}
	bound.Name = "gang"
	return &bound
}

// groupsOf returns a copy of each replica's group, named after the replica, and calls p.count for it.
func (p *Place) groupsOf(moving []*Replica) (out []*placement.Group) {
	for _, r := range moving {
		one := *r.Group
		one.Name = r.Name()
		out = append(out, &one)
		p.count(&one)
	}
	return out
}

// assume reserves the place of a group.
func (p *Place) assume(g *placement.Group, at *placement.GroupResult) {
	for i := range at.Pods {
		p.Cluster.Assume(g.Pods[i].ID, at.Pods[i].Node, g.Pods[i].Shape)
	}
	for i, sub := range at.Groups {
		p.assume(g.Groups[i], sub)
	}
}

// count computes in advance how many pods of each shape in a group fit on all nodes, so that a plan does not spend its budget on this work.
func (p *Place) count(g *placement.Group) {
	t := p.Cluster.Tree(p.Levels, p.NodeSelector)
	for i := range g.Pods {
		if i == 0 || g.Pods[i].Shape != g.Pods[i-1].Shape {
			t.View(g.Pods[i].Shape).Fit(topology.Root)
		}
	}
}

// takeOff removes the pods of replicas from the cluster copy.
func (p *Place) takeOff(moving []*Replica) {
	for _, r := range moving {
		for i := range r.Pods {
			p.Cluster.DeletePod(r.Pods[i].ID)
		}
	}
}

// plan converts a result of [Place.together] or [Place.whileRunning] into a [Plan]. If gang is set, the first group of the result is the
// gang.
func (p *Place) plan(domains []topology.Path, moving []*Replica, found *placement.GroupResult, gang bool) *Plan {
	out := &Plan{Domains: domains, Cost: CostOf(moving)}
	groups := found.Groups
	if gang {
		out.Nodes, groups = sortedNodes(groups[0]), groups[1:]
	}
	for i, r := range moving {
		move := Move{Replica: r, Nodes: nodesOf(groups[i])}
		move.To = p.domainOf(move.Nodes)
		for k := range r.Pods {
			move.From = p.widen(move.From, r.Pods[k].Node, k == 0)
		}
		out.Moves = append(out.Moves, move)
	}
	slices.SortStableFunc(out.Moves, func(a, b Move) int { return strings.Compare(a.Replica.Name(), b.Replica.Name()) })
	out.Moves = p.inOrder(out.Moves)
	return out
}

// domainOf returns the narrowest domain that holds all of the given nodes.
func (p *Place) domainOf(nodes []string) (domain topology.Path) {
	for i, name := range nodes {
		domain = p.widen(domain, name, i == 0)
	}
	return domain
}

// widen returns the narrowest domain that holds a domain and a node. If first is set, it returns the node's own domain.
func (p *Place) widen(domain topology.Path, node string, first bool) topology.Path {
	path := p.Levels.PathOf(p.Cluster.NodeLabels(node))
	if first {
		return path
	}
	n := 0
	for n < min(len(domain), len(path)) && domain[n] == path[n] {
		n++
	}
	return domain[:n]
}

// inOrder sorts moves so that the new place of each move is free once the earlier moves are done, while the move's own replica still runs.
// If no remaining move fulfills this condition, inOrder marks one of the remaining moves as InPlace. It prefers a move whose new place is
// free once the move's own replica has left.
func (p *Place) inOrder(moves []Move) []Move {
	p.Cluster.Begin()
	defer p.Cluster.Rollback()
	t := p.Cluster.Tree(p.Levels, p.NodeSelector)
	out, left := make([]Move, 0, len(moves)), slices.Clone(moves)
	for len(left) > 0 {
		at := slices.IndexFunc(left, func(m Move) bool { return p.fits(t, m, false) })
		if at < 0 {
			if at = slices.IndexFunc(left, func(m Move) bool { return p.fits(t, m, true) }); at < 0 {
				at = 0
			}
			left[at].InPlace = true
		}
		m := left[at]
		p.takeOff([]*Replica{m.Replica})
		p.put(m)
		out, left = append(out, m), slices.Delete(left, at, at+1)
	}
	return out
}

// fits reports whether the new place of a move is free now, or, if left is set, once its replica has left.
func (p *Place) fits(t *topology.Tree, m Move, left bool) bool {
	p.Cluster.Begin()
	defer p.Cluster.Rollback()
	if left {
		p.takeOff([]*Replica{m.Replica})
	}
	for i, pod := range m.Replica.Group.Pods {
		n, known := p.Cluster.Node(m.Nodes[i])
		if !known || t.View(pod.Shape).NodeFit(n) == 0 {
			return false
		}
		p.Cluster.Assume(pod.ID, m.Nodes[i], pod.Shape)
	}
	return true
}

// put reserves the new place of a move.
func (p *Place) put(m Move) {
	for i, pod := range m.Replica.Group.Pods {
		p.Cluster.Assume(pod.ID, m.Nodes[i], pod.Shape)
	}
}
