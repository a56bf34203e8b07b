// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package topology stores where the nodes of a cluster are, and how many pods of a shape each network domain still holds.
//
// A [Cluster] is the store of nodes and of the pods that use them: bound pods, and reservations of released, unbound pods. A [Tree] applies
// a list of levels to that store; several trees share one store. A [View] counts, for one tree and one pod [Shape], how many pods of the
// shape fit each node and, summed up, each domain. Pods are counted per node: a rack with one free GPU on each of four hosts holds no pod
// that requests four GPUs (docs/providers.md#gates).
//
// # Cost
//
// Every change of a node (its object, or a pod on it) is one entry in a change log. A view stores its position in the log. When it is read,
// it processes only the new entries: one division per resource and one addition per level for each changed node. An event therefore costs
// nothing for views that are not read, a read costs nothing without changes, and these costs do not grow with the number of nodes. If the
// log no longer contains all entries that a view has yet to read, the view recounts all nodes, O(nodes). An undo is a change like any
// other.
//
// # Example
//
//	levels: zone > rack            8-GPU hosts; "-2" = two GPUs used
//
//	cluster          14            view of a pod with 4 GPUs: fit per domain
//	├─ zone-a         8
//	│  ├─ rack-1      4  (a1, a2)
//	│  └─ rack-2      4  (a3, a4)
//	└─ zone-b         6
//	   └─ rack-1      5  (b1, b2, b3-2, b4-6): 2+2+1+0; host b5-4 lacks the rack label and counts its 1 in zone-b only
//
// zone-a/rack-1 and zone-b/rack-1 are two domains: a domain is a [Path], not a label value. Binding a pod to a1 adds one log entry; the
// next read recounts a1 and corrects zone-a/rack-1, zone-a and the cluster.
//
// The types of this package are not safe for concurrent use; the owner of the Cluster must hold a lock.
package topology
