// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package dynamographdeployment

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/constraint"
	"github.com/trellis-k8s/trellis/internal/limit"
	"github.com/trellis-k8s/trellis/internal/render"
)

// EventDefaultTopologyUndecided reports that several default topologies fit a component equally well, so that no topology was chosen for
// it.
const EventDefaultTopologyUndecided = "DefaultTopologyUndecided"

// +kubebuilder:rbac:groups="",resources=nodes,verbs=get;list;watch

// observeDefaults reads the default topologies for a multinode deployment that has no constraint and whose groups are not all created. If
// several default topologies are in use, it also reads the nodes, because the choice depends on the nodes that a component's pods can use.
func (r *Reconciler) observeDefaults(ctx context.Context, o *observed) error {
	if len(o.groups) >= len(o.dgd.Spec.Components) || o.stated.Any() || !o.stated.Multinode {
		return nil
	}
	all := &grovev1alpha1.ClusterTopologyList{}
	if err := r.Client.List(ctx, all); err != nil {
		return fmt.Errorf("listing ClusterTopologies: %w", err)
	}
	o.defaults = constraint.Defaults(all.Items)
	if len(constraint.Counting(o.defaults)) < 2 {
		return nil
	}
	nodes := &corev1.NodeList{}
	if err := r.Client.List(ctx, nodes, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing nodes: %w", err)
	}
	for i := range nodes.Items {
		o.nodes = append(o.nodes, &nodes.Items[i])
	}
	return nil
}

// reportUndecided sends an event for each new component for which none of several default topologies could be chosen.
func (r *Reconciler) reportUndecided(o observed, wanted *render.Graph) {
	for _, u := range wanted.Undecided {
		r.Recorder.Eventf(o.dgd, nil, corev1.EventTypeNormal, EventDefaultTopologyUndecided, "Place", "%s", limit.Text(fmt.Sprintf(
			"component %q follows no default topology: its pods can use the nodes of %s alike; select the nodes of one of them, or name one in "+
				"topologyConstraint",
			u.Component, strings.Join(u.Topologies, ", ")), limit.Condition))
	}
}
