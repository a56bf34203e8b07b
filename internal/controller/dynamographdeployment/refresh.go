// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package dynamographdeployment

import (
	"context"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/constraint"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
	"github.com/trellis-k8s/trellis/internal/render"
)

// refresh resolves the constraint of a deployment again when its ClusterTopology has changed and none of the deployment's pods is placed.
// It returns nil if the frozen constraint stays. All groups get the same levels. If the operator stops before all groups are written, the
// scheduler releases no pod of the deployment until the next operator has written the remaining groups.
func (r *Reconciler) refresh(ctx context.Context, o observed) map[string]*trellisv1alpha1.ResolvedTopology {
	if r.MayRefresh == nil || o.clusterTopology == nil || len(o.groups) == 0 || !specs.Named(o.provider.Name).Planned {
		return nil
	}
	refreshed := constraint.Refreshed(constraintsIn(o.groups), o.stated, o.clusterTopology)
	var to *trellisv1alpha1.ResolvedTopology
	for _, t := range refreshed {
		if t != nil {
			to = t
		}
	}
	if !r.MayRefresh(ctx, o.dgd, to) {
		return nil
	}
	return refreshed
}

// constraintsIn returns the constraints of scaling groups, by component. It omits constraints that another client has changed. An omitted
// constraint is copied from another group or resolved again.
func constraintsIn(groups map[string]*trellisv1alpha1.ScalingGroup) map[string]*trellisv1alpha1.ResolvedTopology {
	out := map[string]*trellisv1alpha1.ResolvedTopology{}
	for component, sg := range groups {
		if !render.EditOf(sg).Any("topology") {
			out[component] = sg.Spec.Topology
		}
	}
	return out
}
