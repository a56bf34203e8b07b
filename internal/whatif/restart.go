// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package whatif

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/placement"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// Restart is the result of a Parallel restart of a deployment.
type Restart struct {
	// Domain of the restarted graph; empty without a graph domain.
	Domain topology.Path
	// Level is the name of the graph domain's level; "" without one.
	Level string
	// Wanted is the number of packed replicas. Placed is the number of packed replicas that would be placed.
	Placed, Wanted int
	// Loses: the kube-scheduler would find capacity for fewer replicas than without the restart.
	Loses bool
}

// Complete reports whether every packed replica would be placed, and no running replica would have to wait.
func (r *Restart) Complete() bool { return r.Placed == r.Wanted && !r.Loses }

// Text describes where the replicas would be placed: "zone-1 holds all 4 packed replicas", or "no zone holds all 4 packed replicas (zone-1:
// 3)".
func (r *Restart) Text() string {
	where := gang.OrCluster(r.Domain)
	if r.Complete() {
		return fmt.Sprintf("%s holds all %d packed replicas", where, r.Wanted)
	}
	if r.Placed == r.Wanted {
		return where + " does not hold all that runs now"
	}
	if r.Level == "" || len(r.Domain) == 0 {
		return fmt.Sprintf("%d of %d packed replicas would be placed", r.Placed, r.Wanted)
	}
	return fmt.Sprintf("no %s holds all %d packed replicas (%s: %d)", r.Level, r.Wanted, r.Domain, r.Placed)
}

// Restart plans a Parallel restart of the deployment of g: all of its pods are removed, and a new domain is chosen. Packed replicas do not
// preempt pods of lower priority. If the current domain is chosen again but does not suffice, Restart plans in the domain that a refusal in
// g names, if any. Call Restart before g is rolled back. It returns false if there is nothing to plan.
func (p *Planner) Restart(g *Plan) (Restart, bool) {
	if g.request == nil {
		return Restart{}, false
	}
	p.Begin()
	defer p.Rollback()
	p.withdraw(g)
	none := func(*trellisv1alpha1.ScalingGroup, bool) []*corev1.Pod { return nil }
	r, err := p.requestWith(g.request.observation.DGD, none)
	if err != nil {
		return Restart{}, false
	}
	found := p.restarted(g, r, nil)
	if other := g.elsewhere(); !found.Complete() && len(other) > 0 && !other.Equal(found.Domain) && found.Domain.Equal(g.Domain) {
		return p.restarted(g, r, other), true
	}
	return found, true
}

// restarted plans all replicas of a deployment without pods. The parameter within is the graph domain; nil for any domain.
func (p *Planner) restarted(g *Plan, r *request, within topology.Path) Restart {
	p.Begin()
	defer p.Rollback()
	once := *r
	once.asked = gang.NewRequest(once.observation)
	once.asked.Graph.Anchor, once.asked.Graph.Preempts = within, false
	options := p.options
	options.Domains = false
	once.result = placement.PlanGraph(p.cluster, once.asked.Graph, options)
	p.planUnconstrained(&once)
	after := p.answer(&once)
	found := Restart{Domain: after.Domain, Wanted: after.Packed(), Loses: after.unplacedFree() > g.unplacedFree()}
	found.Placed = found.Wanted - len(after.Waiting())
	if required := once.asked.Graph.Required; required != topology.NoLevel {
		found.Level = once.asked.Graph.Levels.Name(required)
	}
	return found
}

// withdraw removes all existing and planned pods of a plan from the cluster.
func (p *Planner) withdraw(g *Plan) {
	for _, pod := range g.Exist {
		p.cluster.DeletePod(topology.PodID(pod))
	}
	p.forget(g)
}

// forget drops the capacity that a plan has reserved.
func (p *Planner) forget(g *Plan) {
	for _, demand := range append([]placement.Demand{g.request.asked.Graph}, g.request.freeGraphs...) {
		for _, component := range demand.Components {
			for _, replica := range component.Waiting {
				for _, pod := range replica.Pods {
					p.cluster.Forget(pod.ID)
				}
			}
		}
	}
}

// unplacedFree counts the unplaced replicas that are left to the kube-scheduler.
func (g *Plan) unplacedFree() (n int) {
	for i := range g.Replicas {
		if r := &g.Replicas[i]; r.Free && r.Reason != nil {
			n++
		}
	}
	return n
}

// elsewhere returns a domain outside of the graph's domain that has capacity for a refused replica; nil if no refusal names such a domain.
func (g *Plan) elsewhere() topology.Path {
	for i := range g.Replicas {
		if why := g.Replicas[i].Reason; why != nil && why.Refusal != nil && len(why.Refusal.Elsewhere) > 0 {
			return why.Refusal.Elsewhere
		}
	}
	return nil
}
