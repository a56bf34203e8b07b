// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package repack

import (
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/trellis-k8s/trellis/internal/placement"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// maxPacking bounds the steps of one packing.
const maxPacking = 200_000

// packing checks whether groups fit together, by the requested amounts alone; the planner applies more rules. packing remembers the states
// that have no solution. So it proves in few steps that no packing exists, while the planner would have to try every order. packing is
// suitable only for few hosts.
type packing struct {
	tree  *topology.Tree
	hosts []packHost
	units []packUnit
	dead  map[string]bool
	steps int
}

// packHost is a host with the remaining amount of each resource.
type packHost struct {
	node topology.NodeID
	home topology.DomainID
	left []int64
}

// packUnit is a set of pods that must all be placed in one of the listed domains. The list has the domains of one level inside a wider
// domain, or only this wider domain.
type packUnit struct {
	domains []topology.DomainID
	pods    []packPod
}

// packPod is a pod. asks has the requested amounts, indexed like packHost.left. allowed has, for each host, whether the pod may use the
// host.
type packPod struct {
	key     string
	asks    []int64
	allowed []bool
}

// mayPack reports whether a packing exists with the gang in the given domain and each moving replica in the domain of its graph. For this
// check, it removes the replicas from the cluster copy. It also returns true if the packing takes too many steps.
func (f *finder) mayPack(domain topology.DomainID, moving []*Replica) bool {
	f.Cluster.Begin()
	defer f.Cluster.Rollback()
	f.takeOff(moving)
	p := &packing{tree: f.tree, dead: map[string]bool{}}
	f.tree.AllNodes(topology.Root, func(n topology.NodeID) bool {
		p.hosts = append(p.hosts, packHost{node: n, home: f.tree.Home(n)})
		return true
	})
	names := map[string]int{}
	p.add(f.gang.Group, domain, names)
	for _, r := range moving {
		within, found := f.tree.Find(r.Group.Within)
		if !found {
			return false
		}
		p.add(r.Group, within, names)
	}
	slices.SortStableFunc(p.units, func(a, b packUnit) int { return cmp.Compare(len(a.domains), len(b.domains)) })
	found := p.unit(0)
	f.bounds.steps -= p.steps
	return found || p.steps > maxPacking
}

// add adds the pods of a group as a unit, and each group in it as a unit of its own.
func (p *packing) add(g *placement.Group, within topology.DomainID, names map[string]int) {
	if d, found := p.tree.Find(g.Within); found && p.tree.Within(d, within) {
		within = d
	}
	level := max(g.Required, p.tree.LevelOf(within))
	u := packUnit{domains: []topology.DomainID{within}}
	if level > p.tree.LevelOf(within) {
		u.domains = p.tree.Domains(level, within)
	}
	known := map[string]packPod{}
	for i := range g.Pods {
		shape := g.Pods[i].Shape
		pod, is := known[shape.Key()]
		if !is {
			pod = p.pod(shape, names)
			known[shape.Key()] = pod
		}
		u.pods = append(u.pods, pod)
	}
	slices.SortStableFunc(u.pods, func(a, b packPod) int { return cmp.Or(-slices.Compare(a.asks, b.asks), cmp.Compare(a.key, b.key)) })
	if len(u.pods) > 0 {
		p.units = append(p.units, u)
	}
	for _, sub := range g.Groups {
		p.add(sub, within, names)
	}
}

// pod returns a pod of a shape. It also records in the hosts how much of each requested resource is unused.
func (p *packing) pod(s *topology.Shape, names map[string]int) packPod {
	view, out := p.tree.View(s), packPod{key: s.Key()}
	for i, r := range s.Requests() {
		at, known := names[r.Name]
		if !known {
			at = len(names)
			names[r.Name] = at
		}
		for len(out.asks) <= at {
			out.asks = append(out.asks, 0)
		}
		out.asks[at] = r.Amount
		for h := range p.hosts {
			for host := &p.hosts[h]; len(host.left) <= at; {
				host.left = append(host.left, unlimited)
			}
			if left, counts := view.Left(p.hosts[h].node, i); counts {
				p.hosts[h].left[at] = left
			}
		}
	}
	for h := range p.hosts {
		out.allowed = append(out.allowed, view.NodeFit(p.hosts[h].node) > 0)
	}
	return out
}

// unit places all units from index "at", and reports whether it succeeded.
func (p *packing) unit(at int) bool {
	if at == len(p.units) {
		return true
	}
	key := p.key(at)
	if p.dead[key] {
		return false
	}
	for _, d := range p.units[at].domains {
		if p.pods(at, d, 0, 0) {
			return true
		}
		if p.steps > maxPacking {
			return false
		}
	}
	p.dead[key] = true
	return false
}

// pods places the pods of a unit from index "pod" in a domain, and then the remaining units. To skip equivalent packings, it places equal
// pods on hosts in ascending order, and tries only the first of several equal hosts.
func (p *packing) pods(at int, d topology.DomainID, pod, from int) bool {
	u := &p.units[at]
	if pod == len(u.pods) {
		return p.unit(at + 1)
	}
	one := &u.pods[pod]
	for h := from; h < len(p.hosts); h++ {
		if !one.allowed[h] || !p.tree.Within(p.hosts[h].home, d) || !one.fits(p.hosts[h].left) || p.tried(from, h) {
			continue
		}
		if p.steps++; p.steps > maxPacking {
			return false
		}
		next := 0
		if pod+1 < len(u.pods) && u.pods[pod+1].key == one.key {
			next = h
		}
		one.take(p.hosts[h].left, 1)
		found := p.pods(at, d, pod+1, next)
		one.take(p.hosts[h].left, -1)
		if found {
			return true
		}
	}
	return false
}

// tried reports whether a host with an index in [from, h) is equal to host h.
func (p *packing) tried(from, h int) bool {
	for o := from; o < h; o++ {
		if p.hosts[o].home == p.hosts[h].home && slices.Equal(p.hosts[o].left, p.hosts[h].left) && p.allowedAlike(o, h) {
			return true
		}
	}
	return false
}

// allowedAlike reports whether two hosts may hold the same pods.
func (p *packing) allowedAlike(a, b int) bool {
	for i := range p.units {
		for _, pod := range p.units[i].pods {
			if pod.allowed[a] != pod.allowed[b] {
				return false
			}
		}
	}
	return true
}

// key returns the state before a unit is placed: the unit's index, and the unused amounts on the hosts.
func (p *packing) key(at int) string {
	key := binary.AppendUvarint(nil, uint64(at))
	for h := range p.hosts {
		for _, left := range p.hosts[h].left {
			key = binary.AppendVarint(key, left)
		}
	}
	return string(key)
}

func (one *packPod) fits(left []int64) bool {
	for i, ask := range one.asks {
		if ask > left[i] {
			return false
		}
	}
	return true
}

func (one *packPod) take(left []int64, k int64) {
	for i, ask := range one.asks {
		left[i] -= k * ask
	}
}
