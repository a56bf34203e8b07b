// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"github.com/trellis-k8s/trellis/internal/cli/live"
	"github.com/trellis-k8s/trellis/internal/topology"
	"github.com/trellis-k8s/trellis/internal/whatif"
)

// Plans is the report, and its JSON form. Lists are never null.
type Plans struct {
	Graphs []Outcome `json:"graphs"`
	// Operator is present if the cluster's operator does not renew its Lease, or if its state is unknown.
	Operator *live.Heartbeat `json:"operator,omitempty"`

	// Plans are the plans from which Graphs was made, in the same order.
	Plans []whatif.Plan `json:"-"`

	in Input
}

// Outcome is the result for one deployment.
type Outcome struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
	// Placed: every replica is placed.
	Placed bool `json:"placed"`
	// Score measures how tightly the planned replicas are placed, in [0,1].
	Score float64 `json:"score"`
	// Transfer describes how prefill and decode replicas would share domains; absent if no kvTransferPolicy places these replicas.
	Transfer *Transfer `json:"kvTransfer,omitempty"`
	// Domain of the entire graph, as label values by level name; empty without a graph domain.
	Domain map[string]string `json:"domain"`
	// Replicas by component and ordinal, including running replicas.
	Replicas []Replica `json:"replicas"`
	// Reasons why replicas are not placed.
	Reasons []Reason `json:"reasons"`
	// ComputeDomains that the deployment's pods join, with the cliques in which these pods would be.
	ComputeDomains []ComputeDomain `json:"computeDomains,omitempty"`
}

// Transfer counts the prefill and decode replicas. PrefillPaired and DecodePaired count the replicas in domains of Level that contain
// replicas of both roles.
type Transfer struct {
	Level         string `json:"level"`
	Prefill       int    `json:"prefill"`
	PrefillPaired int    `json:"prefillPaired"`
	Decode        int    `json:"decode"`
	DecodePaired  int    `json:"decodePaired"`
}

// Replica is the place of one replica.
type Replica struct {
	Component string            `json:"service"`
	Replica   int               `json:"replica"`
	Placed    bool              `json:"placed"`
	Domain    map[string]string `json:"domain"`
	Pods      []Pod             `json:"pods"`
}

// Pod is one pod on its node.
type Pod struct {
	Name string `json:"name"`
	Node string `json:"node"`
}

// Reason is the reason why one replica is not placed.
type Reason struct {
	Component string `json:"service"`
	Replica   int    `json:"replica"`
	Reason    string `json:"reason"`
	Message   string `json:"message"`
}

func (r *Plans) placed() bool {
	for i := range r.Graphs {
		if !r.Graphs[i].Placed {
			return false
		}
	}
	return true
}

func (r *Plans) add(g whatif.Plan) {
	out := Outcome{
		Name: g.Name, Namespace: g.Namespace, Placed: g.Placed(), Score: g.Score,
		Domain: domainMap(g.Levels, g.Domain), Replicas: []Replica{}, Reasons: []Reason{},
	}
	for _, replica := range g.Replicas {
		one := Replica{
			Component: replica.Component, Replica: replica.Ordinal, Placed: replica.Reason == nil,
			Domain: domainMap(g.Levels, replica.Domain), Pods: []Pod{},
		}
		for _, pod := range replica.Pods {
			one.Pods = append(one.Pods, Pod(pod))
		}
		out.Replicas = append(out.Replicas, one)
		if reason := replica.Reason; reason != nil {
			out.Reasons = append(out.Reasons, Reason{Component: replica.Component, Replica: replica.Ordinal, Reason: reason.Code,
				Message: reason.Message})
		}
	}
	if t := g.Transfer; t != nil {
		out.Transfer = &Transfer{t.Level, t.Prefill.Bound, t.Prefill.Paired, t.Decode.Bound, t.Decode.Paired}
	}
	out.ComputeDomains = r.computeDomains(&g)
	r.Graphs, r.Plans = append(r.Graphs, out), append(r.Plans, g)
}

// domainMap maps the names of levels to the values of a path.
func domainMap(levels topology.Levels, path topology.Path) map[string]string {
	out := map[string]string{}
	for i := range min(len(levels), len(path)) {
		out[levels[i].Domain] = path[i]
	}
	return out
}
