// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package maps

import (
	"time"

	"github.com/trellis-k8s/trellis/internal/cli/explain"
	"github.com/trellis-k8s/trellis/internal/cli/tree"
)

// Map is what is drawn, and its JSON form. Graphs, trees and notes are those of kubectl trellis tree -A -o json, with every domain.
type Map struct {
	tree.Overview
	// Sums of each tree.
	Sums []Sums `json:"sums"`
	// Taken is when the cluster was read; absent when it was read from files only.
	Taken *time.Time `json:"taken,omitempty"`
	// Pod is the amount that each pod of a gang takes, for the question how large a gang fits: the largest that a pod of the graphs asks for,
	// or all of the largest host.
	Pod int64 `json:"pod"`
	// Waiting is what is not placed, with what is missing.
	Waiting []GraphCause `json:"waiting"`
	// Planned are the deployments laid over the cluster; their pods that are not there yet have the state StatePlanned.
	Planned []Planned `json:"planned,omitempty"`
	// Live: the page is served and refreshes itself.
	Live bool `json:"live,omitempty"`
}

// StatePlanned is the state of a pod that is drawn where a plan puts it.
const StatePlanned = "planned"

// GraphCause is one reason why replicas of a graph are not placed. Need, domain, blocking hosts and pods are those of explain.
type GraphCause struct {
	Namespace string `json:"namespace"`
	Graph     string `json:"graph"`
	// Tree is the index of the tree that its domains are of.
	Tree int `json:"tree"`
	// Since when the graph is not placed.
	Since *time.Time `json:"since,omitempty"`
	// Planned: it belongs to a plan laid over the cluster, and is not placed.
	Planned bool `json:"planned,omitempty"`
	// Operator is what the operator says of it, where that is not the same.
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
