// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package grove renders a deployment as Grove's PodCliqueSet, in the shape and under the names that Dynamo gives it, and reads Grove's
// status back. Grove makes the pods; Trellis makes none.
//
//	deployment chat, packDomain zone            PodCliqueSet chat, 1 replica: pack zone
//	  Decode, 2 replicas of 4 pods, rack    ->    scaling group decode, 2 replicas, each: pack rack
//	                                                clique decode-ldr: 1 pod    clique decode-wkr: 3 pods
//	  Frontend, 3 replicas                        clique frontend: 3 pods
//
// Grove has changed the words of a constraint three times. Which of them the cluster understands is read from the schema it serves
// (schema.go), never from a version.
//
// Where Grove is not what Trellis promises elsewhere:
//
//   - Replicas of a multinode component beyond the first are gangs of their own to Grove, with the graph's constraint but not tied to the
//     domain the graph is in. All replicas share one template, so pinning one would restart all. Limits reports it beforehand, Strays when
//     it has happened.
//   - Grove takes a constraint away from pods whose topology is gone. TopologyLevels never reports that as available.
package grove

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/trellis-k8s/trellis/internal/topologybinding"
)

// Kinds of Grove that Trellis writes or reads.
var (
	groupVersion = schema.GroupVersion{Group: "grove.io", Version: "v1alpha1"}

	PodCliqueSetKind           = groupVersion.WithKind("PodCliqueSet")
	PodCliqueKind              = groupVersion.WithKind("PodClique")
	PodCliqueScalingGroupKind  = groupVersion.WithKind("PodCliqueScalingGroup")
	ClusterTopologyBindingKind = topologybinding.Kind
)

// LabelPartOf on every object and pod of a PodCliqueSet has its name.
const LabelPartOf = "app.kubernetes.io/part-of"

// LabelReplica on a pod is the replica of its scaling group.
const LabelReplica = "grove.io/podcliquescalinggroup-replica-index"
