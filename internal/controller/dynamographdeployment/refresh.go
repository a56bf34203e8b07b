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

// refresh resolves the constraint of a deployment anew when its ClusterTopology has changed and no pod of it is placed; nil where the
// frozen one stays. All groups get the same levels. Where the operator ends before all are written, the scheduler releases nothing until
// the next one has written the rest.
func (r *Reconciler) refresh(ctx context.Context, o observed) map[string]*trellisv1alpha1.ResolvedTopology {
	if r.MayRefresh == nil || o.profile == nil || len(o.groups) == 0 || !specs.Named(o.provider.Name).Planned || o.provider.workload != "" {
		return nil
	}
	refreshed := constraint.Refreshed(constraintsIn(o.groups), o.stated, o.profile)
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

// constraintsIn are the constraints of scaling groups, by component. One that another client has changed is left out: it is taken from the
// siblings, or resolved anew.
func constraintsIn(groups map[string]*trellisv1alpha1.ScalingGroup) map[string]*trellisv1alpha1.ResolvedTopology {
	out := map[string]*trellisv1alpha1.ResolvedTopology{}
	for component, sg := range groups {
		if !render.EditOf(sg).Any("topology") {
			out[component] = sg.Spec.Topology
		}
	}
	return out
}
