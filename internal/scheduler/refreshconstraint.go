// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/constraint"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/render"
)

// placedByTrellis reports whether a pod belongs to a group whose pods Trellis places, or to no known group.
func placedByTrellis(pod *corev1.Pod, groups []*trellisv1alpha1.ScalingGroup) bool {
	at := slices.IndexFunc(groups, func(sg *trellisv1alpha1.ScalingGroup) bool { return render.Member(pod, sg) })
	return at < 0 || render.Gated(groups[at])
}

// awaitConstraint stops the releases of a graph while its groups are being updated to other levels and not all groups have the new levels
// yet.
func (e *evaluation) awaitConstraint(o *gang.Observation) {
	to, is := e.refreshing[e.d.graph]
	if is && !slices.ContainsFunc(o.Groups, func(sg *trellisv1alpha1.ScalingGroup) bool {
		return sg.Spec.Topology != nil && !constraint.SameLevels(sg.Spec.Topology, to)
	}) {
		delete(e.refreshing, e.d.graph)
		is = false
	}
	if o.Unfinished == "" && (is || constraint.Mixed(o.Groups)) {
		o.Unfinished = gang.ConstraintRefreshed
	}
}
