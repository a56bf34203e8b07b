// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package maps

import (
	"time"

	"github.com/trellis-k8s/trellis/internal/cli/explain"
	"github.com/trellis-k8s/trellis/internal/cli/tree"
)

// Map is the content of the drawing, and its JSON form. Graphs, trees and notes are as in kubectl trellis tree -A -o json, but with every
// domain.
type Map struct {
	tree.Overview
	// Sums of each tree.
	Sums []Sums `json:"sums"`
	// Taken is the time at which the cluster was read; absent if only files were read.
	Taken *time.Time `json:"taken,omitempty"`
	// Pod is the amount per pod with which the page computes the largest gang that fits. It is the largest request of the graphs' pods. If
	// no pod requests the resource, or no host has enough of it for this request, Pod is the capacity of the largest host.
	Pod int64 `json:"pod"`
	// Waiting lists the replicas that are not placed, with their reasons.
	Waiting []GraphCause `json:"waiting"`
	// Planned are the deployments of the drawn plan. Pods that the plan places have the state StatePlanned.
	Planned []Planned `json:"planned,omitempty"`
	// Live: the page is served and refreshes itself.
	Live bool `json:"live,omitempty"`
}

// StatePlanned is the state of a pod that is drawn at its planned place.
const StatePlanned = "planned"

// GraphCause is a reason why replicas of a graph are not placed. The fields of Cause are as in kubectl trellis explain.
type GraphCause struct {
	Namespace string `json:"namespace"`
	Graph     string `json:"graph"`
	// Tree is the index of the tree that contains the graph's domains.
	Tree int `json:"tree"`
	// Since is the time at which the graph began to wait.
	Since *time.Time `json:"since,omitempty"`
	// Planned: the graph belongs to the drawn plan, which does not place these replicas.
	Planned bool `json:"planned,omitempty"`
	// Operator is the operator's report, if the report differs from the plan.
	Operator string `json:"operator,omitempty"`
	explain.Cause
}

// Planned is a deployment of the drawn plan.
type Planned struct {
	Namespace string  `json:"namespace"`
	Name      string  `json:"name"`
	Domain    string  `json:"domain,omitempty"`
	Placed    int     `json:"placed"`
	Replicas  int     `json:"replicas"`
	Score     float64 `json:"score"`
}
