// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package constraint answers what packs a deployment, for all who need to know:
//
//	StatementOf   what a deployment states: fields or annotations
//	Of            the constraint of every component, resolved: what is frozen, else what is stated, else a default topology
//	OfGraph       what a scheduler is asked for, of a resolved constraint, for all pods together; OfComponent, for each replica
//
// Fields name domains. Annotations, in the manner of KAI Scheduler and Run:ai, name node label keys:
//
//	kai.scheduler/topology: gpu-racks                              topologyProfile: gpu-racks
//	kai.scheduler/topology-required-placement: example.com/zone    packDomain: zone
//	kai.scheduler/topology-preferred-placement: example.com/rack   preferredPackDomain: rack
package constraint

import (
	"cmp"
	"slices"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
)

// AnnotationDefault is set to "true" on each ClusterTopology that multinode components without any constraint are packed by, as well as it goes.
const AnnotationDefault = "trellis.dev/is-default-topology"

// Defaults returns the topologies that are annotated as the default, the oldest first. Those of them count that [Counting] returns.
func Defaults(topologies []grovev1alpha1.ClusterTopology) []*grovev1alpha1.ClusterTopology {
	var out []*grovev1alpha1.ClusterTopology
	for i := range topologies {
		if ct := &topologies[i]; ct.Annotations[AnnotationDefault] == "true" && ct.DeletionTimestamp == nil {
			out = append(out, ct)
		}
	}
	slices.SortFunc(out, func(a, b *grovev1alpha1.ClusterTopology) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	return out
}
