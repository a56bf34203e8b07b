// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package grove renders a deployment as Grove's PodCliqueSet, with the structure and the names that Dynamo uses, and reads Grove's
// status. Grove makes all pods.
//
//	deployment chat, packDomain zone            PodCliqueSet chat, 1 replica: pack zone
//	  Decode, 2 replicas of 4 pods, rack    ->    scaling group decode, 2 replicas, each: pack rack
//	                                                clique decode-ldr: 1 pod    clique decode-wkr: 3 pods
//	  Frontend, 3 replicas                        clique frontend: 3 pods
//
// Grove has changed the fields of a constraint three times. The package reads the supported fields from the served schema (schema.go), and
// never infers them from a version.
//
// Grove does not keep all guarantees of Trellis:
//
//   - Grove treats each additional replica of a multinode component as a gang with the graph's constraint, but does not tie this gang to
//     the graph's domain. All replicas share one template, so pinning one replica would restart all of them. Limits warns about this in
//     advance; Strays reports the pods that Grove has placed elsewhere.
//   - Grove removes the constraint from pods whose topology was deleted. TopologyLevels never reports the levels of a missing topology as
//     available.
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

// LabelPartOf on each object and pod of a PodCliqueSet holds the name of the PodCliqueSet.
const LabelPartOf = "app.kubernetes.io/part-of"

// LabelReplica on a pod holds the index of the pod's replica in the scaling group.
const LabelReplica = "grove.io/podcliquescalinggroup-replica-index"
