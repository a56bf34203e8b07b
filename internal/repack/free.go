// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package repack

import (
	"math"
	"slices"

	"github.com/trellis-k8s/trellis/internal/placement"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// maxFreed is the maximum number of domains that [Free] tries to free.
const maxFreed = 256

// Hosts describes the nodes with GPUs in the domains to free.
type Hosts struct {
	// Offer are the nodes with GPUs. Domains without such nodes are ignored.
	Offer map[string]bool
	// Busy are the nodes with pods that use GPUs and do not belong to a replica that may move.
	Busy map[string]bool
}

// Freed is the result of [Free].
type Freed struct {
	Result
	// Already lists domains whose GPUs are all free before any move, at most as many as are requested.
	Already []topology.Path
}

// Free returns moves after which the requested number of domains of a level have no pod that uses GPUs, including the domains that are free
// already. It chooses the domains one by one, in ascending order of the cost to move their replicas. For a single domain, the moves are
// therefore the cheapest. The plan is nil when no moves are needed, or when too few domains can be freed.
func Free(p Place, level, domains int, hosts Hosts, replicas []Replica, limits Limits) Freed {
	list, rested := eligible(replicas, math.MaxInt32, limits)
	out := Freed{Result: Result{Considered: len(list), Rested: rested}}
	occupied, busy := p.occupied(level, hosts, replicas, list)
	tree := p.Cluster.Tree(p.Levels, p.NodeSelector)
	var candidates []vacating
	for _, d := range tree.Domains(level, topology.Root) {
		path := tree.Path(d)
		offers := false
		tree.AllNodes(d, func(n topology.NodeID) bool {
			offers = hosts.Offer[p.Cluster.NodeName(n)]
			return !offers
		})
		key := path.String()
		switch {
		case !offers || busy[key]:
		case len(occupied[key]) > 0:
			candidates = append(candidates, vacating{path, occupied[key], CostOf(occupied[key])})
		case len(out.Already) < domains:
			out.Already = append(out.Already, slices.Clone(path))
		}
	}
	if wanted := domains - len(out.Already); wanted > 0 {
		slices.SortStableFunc(candidates, func(a, b vacating) int { return a.cost.Compare(b.cost) })
		p.vacate(&out, candidates, wanted, limits)
	}
	return out
}

// vacating is a domain with the replicas that use GPUs there.
type vacating struct {
	path     topology.Path
	replicas []*Replica
	cost     Cost
}

// occupied returns two maps by domain path, for the domains of a level. The first map has the movable replicas that use GPUs in a domain.
// The second map contains the domains in which other pods use GPUs.
func (p *Place) occupied(level int, hosts Hosts, all []Replica, movable []*Replica) (map[string][]*Replica, map[string]bool) {
	occupied, busy := map[string][]*Replica{}, map[string]bool{}
	domain := func(node string) string {
		return p.Levels.PathOf(p.Cluster.NodeLabels(node)).Truncate(level).String()
	}
	for node := range hosts.Busy {
		busy[domain(node)] = true
	}
	moves := map[*Replica]bool{}
	for _, r := range movable {
		moves[r] = true
	}
	for i := range all {
		r := &all[i]
		for k := range r.Pods {
			if r.Pods[k].GPUs == 0 {
				continue
			}
			at := domain(r.Pods[k].Node)
			if !moves[r] {
				busy[at] = true
			} else if !slices.Contains(occupied[at], r) {
				occupied[at] = append(occupied[at], r)
			}
		}
	}
	return occupied, busy
}

// vacate chooses candidate domains in order, until the wanted number of domains can be freed together. It sets the plan of out.
func (p *Place) vacate(out *Freed, candidates []vacating, wanted int, limits Limits) {
	var chosen []topology.Path
	var moving []*Replica
	var found *placement.GroupResult
	p.Cluster.Begin()
	defer func() {
		p.Cluster.Rollback()
		if len(chosen) == wanted {
			slices.SortFunc(chosen, topology.Path.Compare)
			out.Plan = p.plan(chosen, moving, found, false)
		}
	}()
	for _, path := range out.Already {
		p.close(path)
	}
	for i, c := range candidates {
		if out.Sets++; i == maxFreed {
			out.Cut = true
			break
		}
		more := slices.Clone(moving)
		for _, r := range c.replicas {
			if !slices.Contains(more, r) {
				more = append(more, r)
			}
		}
		if gpus := CostOf(more).GPUs; limits.MaxGPUs > 0 && gpus > limits.MaxGPUs {
			if out.OverLimit == 0 {
				out.OverLimit = gpus
			}
			continue
		}
		p.Cluster.Begin()
		p.close(c.path)
		out.Plans++
		answer := p.together(nil, nil, more, placement.Options{})
		if answer == nil {
			p.Cluster.Rollback()
			continue
		}
		p.Cluster.Commit()
		chosen, moving, found = append(chosen, slices.Clone(c.path)), more, answer
		if len(chosen) == wanted {
			return
		}
	}
}

// close removes the nodes of a domain from the cluster copy, so that nothing is placed there.
func (p *Place) close(domain topology.Path) {
	for _, name := range p.nodesIn(domain) {
		p.Cluster.DeleteNode(name)
	}
}

func (p *Place) nodesIn(domain topology.Path) (names []string) {
	tree := p.Cluster.Tree(p.Levels, p.NodeSelector)
	d, found := tree.Find(domain)
	if !found {
		return nil
	}
	tree.AllNodes(d, func(n topology.NodeID) bool {
		names = append(names, p.Cluster.NodeName(n))
		return true
	})
	return names
}
