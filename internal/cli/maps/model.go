// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package maps

import (
	"time"

	"github.com/trellis-k8s/trellis/internal/cli/explain"
	"github.com/trellis-k8s/trellis/internal/cli/tree"
)

// Map is the content of the drawing, and its JSON form. Graphs, trees and notes are as in kubectl trellis tree -A
// -o json, with every domain.
type Map struct {
	tree.Overview
	// Sums of each tree.
	Sums []Sums `json:"sums"`
	// Taken is the time at which the cluster was read; absent if only files were.
	Taken *time.Time `json:"taken,omitempty"`
	// Pod is the amount of each pod by which the page computes how large a gang fits: the largest request of a pod of the graphs, or the
	// capacity of the largest host.
	Pod int64 `json:"pod"`
	// Waiting lists the replicas that are not placed, with their reasons.
	Waiting []GraphCause `json:"waiting"`
	// Planned are the deployments of the plan that is drawn; their pods without a node have the state StatePlanned.
	Planned []Planned `json:"planned,omitempty"`
	// Live: the page is served and refreshes itself.
	Live bool `json:"live,omitempty"`
}

// StatePlanned is the state of a pod that is drawn at its planned place.
const StatePlanned = "planned"

// GraphCause is a reason why replicas of a graph are not placed. Need, domain, blocking hosts and pods are as in explain.
type GraphCause struct {
	Namespace string `json:"namespace"`
	Graph     string `json:"graph"`
	// Tree is the index of the tree with its domains.
	Tree int `json:"tree"`
	// Since is when the graph began to wait.
	Since *time.Time `json:"since,omitempty"`
	// Planned: it belongs to the plan that is drawn, which does not place it.
	Planned bool `json:"planned,omitempty"`
	// Operator is the operator's report, if it differs.
	Operator string `json:"operator,omitempty"`
	explain.Cause
}

// Planned is a deployment of a plan.
type Planned struct {
	Namespace string  `json:"namespace"`
	Name      string  `json:"name"`
	Domain    string  `json:"domain,omitempty"`
	Placed    int     `json:"placed"`
	Replicas  int     `json:"replicas"`
	Score     float64 `json:"score"`
}
