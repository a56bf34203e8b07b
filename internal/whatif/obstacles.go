// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package whatif

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/bools"
	"github.com/trellis-k8s/trellis/internal/placement"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// Obstacle is a host on which no pod of a refused replica fits, with all changes that make a pod fit.
type Obstacle struct {
	Node string
	// Why is the first reason that keeps the pods off the host.
	Why topology.Exclusion
	// Cordoned: the host has to be uncordoned. Broken: the host has to become ready, or has to lose taints that mark it as unfit.
	Cordoned, Broken bool
	// Taints to remove or tolerate.
	Taints []string
	// Pods are the pods to remove: for each missing resource, the fewest pods that free enough of the resource.
	Pods []Occupant

	// effort is the estimated effort to free the host. It is computed before the trial.
	effort int
}

// Occupant is a pod that occupies resources that a refused replica needs.
type Occupant struct {
	types.NamespacedName
	// Amount of the missing Resource that the pod occupies.
	Resource string
	Amount   int64
	// Planned: the pod is not bound. Capacity is reserved for it, or the same command has planned it on this host.
	Planned bool
	// Way to remove the pod permanently.
	Way Way

	id       string
	requests []topology.Request
	// group and ordinal identify the replica of a deployment; controller is the kind and name of another controller.
	group      *trellisv1alpha1.ScalingGroup
	ordinal    int32
	controller string
	// rank is the number of replicas that are removed together with the pod; see rankOf.
	rank int
}

// Obstacles evaluates the domains that come closest to holding a refused replica. It returns the domain that is easiest to free, and the
// hosts to free in this domain, the easiest first. A trial has verified that freeing these hosts gives the replica a place. places has, by
// component, the ordinals that this trial placed with the replica. The trial removes neither the graph's own pods nor pods of a higher
// priority. If no trial succeeds, Obstacles returns nothing. Call it before the plan is rolled back.
func (p *Planner) Obstacles(g Plan, r *placement.Refusal) (domain topology.Path, hosts []Obstacle, places map[string][]int) {
	leaf := culprit(r)
	if r.Never != nil || leaf == nil || leaf.Closest == nil || g.request == nil {
		return nil, nil, nil
	}
	t := p.newTrial(&g, replicaKey{r.Component, r.Ordinal})
	for i, c := range t.candidates(leaf) {
		if i == maxTried || t.plans == maxPlans {
			break
		}
		if domain, hosts, fits := t.free(c, leaf); fits {
			return domain, hosts, t.places
		}
	}
	return nil, nil, nil
}

// maxDomains is the maximum number of evaluated domains.
const maxDomains = 128

// candidate is a domain that a trial may free. list has the domain's hosts on which no pod fits, the easiest to free first.
type candidate struct {
	domain topology.DomainID
	list   []Obstacle
	// holds is the number of the gang's pods that fit now. cost estimates the effort to make all of the gang's pods fit.
	holds, cost int
}

// candidates returns the closest domain and other domains of its level. Domains that hold as many pods as the closest domain precede all
// other domains. In each of these two parts of the list, the cheapest domains come first.
func (t *trial) candidates(leaf *placement.Refusal) []candidate {
	closest, found := t.tree.Find(leaf.Closest.Domain)
	bound, inside := t.tree.Find(leaf.Within)
	if !found || !inside {
		return nil
	}
	shape, pods := missing(t.tree, closest, leaf.Need, t.graph.shapes)
	if shape == nil {
		return nil
	}
	domains := []topology.DomainID{closest}
	for _, d := range t.tree.Domains(t.tree.LevelOf(closest), bound) {
		if d != closest && len(domains) < maxDomains {
			domains = append(domains, d)
		}
	}
	view := t.tree.View(shape)
	list := make([]candidate, len(domains))
	for i, d := range domains {
		list[i] = candidate{domain: d, holds: min(view.Fit(d), pods)}
	}
	for i, hosts := range t.blocked(view, domains) {
		list[i].list, list[i].cost = hosts, cost(hosts, pods-list[i].holds)
	}
	slices.SortStableFunc(list, func(a, b candidate) int {
		return cmp.Or(bools.Compare(b.holds == list[0].holds, a.holds == list[0].holds), cmp.Compare(a.cost, b.cost))
	})
	return list
}

// blocked lists, for each domain, the hosts on which no pod of the view's shape fits, the easiest to free first.
func (t *trial) blocked(view *topology.View, domains []topology.DomainID) [][]Obstacle {
	lists := make([][]Obstacle, len(domains))
	for i, d := range domains {
		t.tree.AllNodes(d, func(n topology.NodeID) bool {
			if why, excluded := view.Why(n); excluded {
				lists[i] = append(lists[i], Obstacle{Node: t.cluster.NodeName(n), Why: why})
			}
			return true
		})
	}
	t.readOccupants(slices.Concat(lists...))
	for _, list := range lists {
		for j := range list {
			list[j].effort = t.effort(&list[j])
		}
		slices.SortStableFunc(list, func(a, b Obstacle) int { return cmp.Compare(a.effort, b.effort) })
	}
	return lists
}

// effort estimates the effort to free a host. Cordoned hosts come first, then hosts by the number of pods or replicas to remove, then hosts
// with taints or failures. Last come hosts that cannot be freed for the pods: they are too small, a selector or affinity excludes them, or
// the graph's own pods occupy them.
func (t *trial) effort(o *Obstacle) int {
	switch o.Why.Kind {
	case topology.KindCordoned:
		return 0
	case topology.KindResource:
		pods, enough := chosen(t.present(o.Node), o.Why)
		if !enough {
			return 1 << 20
		}
		ranks := 0
		for i := range pods {
			ranks += max(pods[i].rank, 1)
		}
		return ranks
	case topology.KindTaint:
		return bools.Int(t.badlyTainted(o.Node))<<12 + 1<<10
	case topology.KindNotReady:
		return 1 << 12
	}
	return 1 << 20
}

// cost estimates the effort to free the given number of hosts of a list.
func cost(list []Obstacle, hosts int) int {
	sum := 0
	for i := range list[:min(max(hosts, 0), len(list))] {
		sum += list[i].effort
	}
	return sum + max(hosts-len(list), 0)<<20 // there are too few, unless each takes several pods
}

// names returns the names of all pods of the graph.
func (g *Plan) names() map[types.NamespacedName]bool {
	own := map[types.NamespacedName]bool{}
	for _, r := range g.Replicas {
		for _, pod := range r.Pods {
			own[types.NamespacedName{Namespace: g.Namespace, Name: pod.Name}] = true
		}
	}
	for _, pod := range g.Exist {
		own[nameOf(pod)] = true
	}
	return own
}

// culprit returns the innermost cause of a refusal: the part of a gang that does not fit.
func culprit(r *placement.Refusal) *placement.Refusal {
	for r != nil && r.Cause != nil {
		r = r.Cause
	}
	return r
}

// missing returns the first shape for which a domain has space for too few pods, and the needed number of pods. If each shape fits by
// itself, missing returns the first shape.
func missing(tree *topology.Tree, at topology.DomainID, needs []placement.Need, shapes []*topology.Shape) (shape *topology.Shape,
	pods int) {
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
