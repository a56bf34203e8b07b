// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import "github.com/trellis-k8s/trellis/internal/topology"

// Options tune a plan; the zero value is the default.
type Options struct {
	// Budget is the number of search steps that one gang may take before it is refused with [CodeBudgetExhausted]; 0 means DefaultBudget.
	Budget int
	// PlanBudget is the number of comparisons ([topology.Cluster.Work]) that one plan may take before the remaining replicas are refused; 0
	// means DefaultPlanBudget plus planBudgetPerNode for each node.
	PlanBudget int
	// Domains lists every compared domain in each refusal. The plan then examines each host of these domains.
	Domains bool

	// end is the value of Cluster.Work, in comparisons, at which the plan ends; 0 for a search outside of a plan.
	end uint64
	// bindings are the rules for the plan's pods that go beyond the resources and constraints of each node.
	bindings []topology.Binding
}

func (o Options) budget() int {
	if o.Budget <= 0 {
		return DefaultBudget
	}
	return o.Budget
}
