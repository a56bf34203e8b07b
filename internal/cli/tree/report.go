// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package tree

import "github.com/trellis-k8s/trellis/internal/cli/live"

// Overview is the report, and its JSON form.
type Overview struct {
	// Graphs that were requested.
	Graphs []Deployment `json:"graphs"`
	// Resource that is counted, e.g. nvidia.com/gpu; empty if nothing is counted.
	Resource string `json:"resource,omitempty"`
	// Trees together contain all drawn hosts. A further tree exists only for hosts outside of the trees before it. A report of Whole has a
	// tree for each topology instead.
	Trees []Tree `json:"trees"`
	// Notes on the limits of the drawing.
	Notes []string `json:"notes,omitempty"`
	// Operator is present if the operator does not renew its Lease, or if its state is unknown.
	Operator *live.Heartbeat `json:"operator,omitempty"`

	// nothing: no domain has the requested amount free.
	nothing bool
	// folds: the text is folded if it has more rows than its page.
	folds bool
}

// Deployment is one DynamoGraphDeployment that is shown.
type Deployment struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Constraints in words.
	Constraints []string `json:"constraints,omitempty"`
	// Topology is the ClusterTopology by which the graph is placed; empty for none.
	Topology string `json:"topology,omitempty"`
	// Domain of the entire graph, as a path.
	Domain string `json:"domain,omitempty"`
	// Transfer describes how prefill and decode replicas share domains; absent if no kvTransferPolicy places these replicas.
	Transfer *Transfer `json:"kvTransfer,omitempty"`
	// Tree is the index of the graph's tree in Trees.
	Tree  int  `json:"tree"`
	Ready bool `json:"ready"`
	// Waiting is present if pods of the graph are missing or have no node.
	Waiting *Unbound `json:"waiting,omitempty"`
}

// Unbound lists the pods of a graph that are not bound to a node, and the reason.
type Unbound struct {
	Pods    []Pod  `json:"pods,omitempty"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message"`
}

// Tree is one hierarchy with the pods in it.
type Tree struct {
	// Topology is the name of the ClusterTopology; empty if there is none.
	Topology string `json:"topology,omitempty"`
	// TopologyKind is ClusterTopologyBinding if the topology is read from an object of this kind, otherwise empty.
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
	// Name is the label value, or the node's name. It is empty for the group of nodes that lack the level's label.
	Name string `json:"name"`
	// Node: this is a single node.
	Node bool `json:"node,omitempty"`
	// State of a node that takes no pods of the graphs (cordoned, not ready, taint KEY=VALUE:EFFECT, gone), or of a domain without a name
	// (unknown).
	State string `json:"state,omitempty"`
	// Amount of the resource; absent if unknown.
	*Amount
	Pods []Pod `json:"pods,omitempty"`
	// Foreign lists the other pods on a node, in a report of Whole: pods of graphs in other trees, and pods of no shown graph that use the
	// resource. Pods of no shown graph have only a namespace, a name, an amount and a state.
	Foreign  []Pod     `json:"foreign,omitempty"`
	Children []*Domain `json:"children,omitempty"`
	// Others sums up the children that are not drawn.
	Others []Others `json:"others,omitempty"`

	nodes int
}

// Amount of the counted resource, as in [topology.NodeCapacity]. Released pods use the resource like bound pods. On a node that takes no
// pods of the graphs, nothing is free.
type Amount struct {
	Used  int64 `json:"used"`
	Free  int64 `json:"free"`
	Total int64 `json:"total"`
}

// Others sums up the domains or nodes of one level that are not drawn.
type Others struct {
	Level string `json:"level"`
	Count int    `json:"count"`
	// Unlabeled is the level whose label these nodes lack.
	Unlabeled string `json:"unlabeled,omitempty"`
	*Amount
}

// Pod is a pod of a graph.
type Pod struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
	Graph     string `json:"graph"`
	// Amount of the counted resource that the pod requests.
	Amount    int64  `json:"amount,omitempty"`
	Component string `json:"service"`
	Replica   int32  `json:"replica"`
	// Index within the replica; 0 is the leader of a multinode replica.
	Index int32 `json:"index"`
	// Role is main, leader or worker.
	Role string `json:"role"`
	// State of a pod that is not ready: "not ready", "terminating" or "released". A released pod is not bound yet, and is shown on the node
	// on which its capacity is reserved.
	State string `json:"state,omitempty"`
}
