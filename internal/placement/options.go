// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import "github.com/trellis-k8s/trellis/internal/topology"

// Options tune a plan; the zero value is the default.
type Options struct {
	// Budget is how many search steps one gang may take before the planner gives up and reports it; 0 means DefaultBudget.
	Budget int
	// PlanBudget is how many comparisons ([topology.Cluster.Work]) one plan may take before what is left of it is refused; 0 means
	// DefaultPlanBudget, and more on a large cluster.
	PlanBudget int
	// Domains lists in every refusal each domain that was looked at. It costs a look at each of their hosts.
	Domains bool

	// end is where the plan that a search belongs to ends, in comparisons; 0 for a search outside of a plan.
	end uint64
	// bindings are what binds the pods of the plan beyond what each node has.
	bindings []topology.Binding
}

func (o Options) budget() int {
	if o.Budget <= 0 {
		return DefaultBudget
	}
	return o.Budget
}
