// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package tree

import "github.com/trellis-k8s/trellis/internal/cli/live"

// Overview is what the command shows, and its JSON form.
type Overview struct {
	// Graphs that were asked for.
	Graphs []Deployment `json:"graphs"`
	// Resource whose amounts are counted, e.g. nvidia.com/gpu; empty when nothing of the kind is known.
	Resource string `json:"resource,omitempty"`
	// Trees: each host is in one of them, unless they are whole ones, of which there is one for each topology.
	Trees []Tree `json:"trees"`
	// Notes on what the reader should know about the drawing.
	Notes []string `json:"notes,omitempty"`
	// Operator is there when the operator is silent, or when nothing is known of it.
	Operator *live.Heartbeat `json:"operator,omitempty"`

	// nothing: no domain has as much free as was asked for.
	nothing bool
	// folds: text is folded to the rows of its page.
	folds bool
}

// Deployment is one DynamoGraphDeployment that is shown.
type Deployment struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Constraints in words.
	Constraints []string `json:"constraints,omitempty"`
	// Topology is the ClusterTopology that it is placed by; empty for none.
	Topology string `json:"topology,omitempty"`
	// Domain all of it sits in, as a path.
	Domain string `json:"domain,omitempty"`
	// Transfer describes how prefill and decode replicas share domains; absent where no kvTransferPolicy places them.
	Transfer *Transfer `json:"kvTransfer,omitempty"`
	// Tree is the index in Trees of the one that shows it.
	Tree  int  `json:"tree"`
	Ready bool `json:"ready"`
	// Waiting is there when something of the graph has no node yet.
	Waiting *Unbound `json:"waiting,omitempty"`
}

// Unbound describes what of a graph is not bound to a node, and why.
type Unbound struct {
	Pods    []Pod  `json:"pods,omitempty"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message"`
}

// Tree is one hierarchy with the pods in it.
type Tree struct {
	// Topology is the name of the ClusterTopology; empty when there is none.
	Topology string `json:"topology,omitempty"`
	// TopologyKind is ClusterTopologyBinding where it is read from one; else empty.
	TopologyKind string `json:"topologyKind,omitempty"`
	// Levels from the broadest to the single node.
	Levels []string `json:"levels"`
	// Cluster is the root: all nodes of the hierarchy.
	Cluster *Domain `json:"cluster"`
}

// Domain is the cluster, one domain of a level, or one node.
type Domain struct {
	// Level is empty for the cluster.
	Level string `json:"level,omitempty"`
	// Name is the label value, or the node's name. It is empty for the nodes that lack the level's label.
	Name string `json:"name"`
	// Node: this is one node.
	Node bool `json:"node,omitempty"`
	// State of a node that takes no pods of the graphs: cordoned, not ready, taint KEY=VALUE:EFFECT, gone; of a domain without a name:
	// unknown.
	State string `json:"state,omitempty"`
	// Amount of the resource; absent when unknown.
	*Amount
	Pods []Pod `json:"pods,omitempty"`
	// Foreign are, in a whole tree, the pods on a node that are of no graph of this tree and use the resource; those of no graph that is
	// shown have a name only.
	Foreign  []Pod     `json:"foreign,omitempty"`
	Children []*Domain `json:"children,omitempty"`
	// Others sums up the children without a pod of the graphs.
	Others []Others `json:"others,omitempty"`

	nodes int
}

// Amount of the counted resource, as in [topology.NodeCapacity]: released pods use it as bound ones do, and nothing is free on a node that
// takes no pods of the graphs.
type Amount struct {
	Used  int64 `json:"used"`
	Free  int64 `json:"free"`
	Total int64 `json:"total"`
}

// Others are domains or nodes of one level that hold no pod of the graphs.
type Others struct {
	Level string `json:"level"`
	Count int    `json:"count"`
	// Unlabeled is the level whose label these nodes lack.
	Unlabeled string `json:"unlabeled,omitempty"`
	*Amount
}

// Pod of a graph.
type Pod struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
	Graph     string `json:"graph"`
	// Amount of the counted resource that it takes.
	Amount    int64  `json:"amount,omitempty"`
	Component string `json:"service"`
	Replica   int32  `json:"replica"`
	// Index within the replica; 0 is the leader of a multinode one.
	Index int32 `json:"index"`
	// Role is main, leader or worker.
	Role string `json:"role"`
	// State when it is not ready: "not ready", "terminating", or "released": it is not bound yet, and stands on the node where its capacity is
	// reserved.
	State string `json:"state,omitempty"`
}
