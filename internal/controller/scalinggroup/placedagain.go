// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scalinggroup

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/assignment"
	"github.com/trellis-k8s/trellis/internal/scheduler"
)

// placedAgain selects the updates of a GraphPlacement that place a replica again, so that its existing pods are obsolete. These pods may
// cause no later event, because another operator instance may have released them between the last read of the pods and the write of the
// GraphPlacement.
func placedAgain() predicate.Predicate {
	never := func(event.CreateEvent) bool { return false } // at the start, all groups are reconciled, and the pods are imported
	return predicate.Funcs{
		CreateFunc: never,
		DeleteFunc: func(event.DeleteEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			was, is := e.ObjectOld.(*trellisv1alpha1.GraphPlacement)
			now, too := e.ObjectNew.(*trellisv1alpha1.GraphPlacement)
			return is && too && was.Generation != now.Generation && assignment.PlacedAgain(&was.Spec, &now.Spec)
		},
	}
}

// groupsOfPlacement returns the scaling groups of a GraphPlacement's deployment.
func (r *Reconciler) groupsOfPlacement(ctx context.Context, o client.Object) []reconcile.Request {
	of := o.(*trellisv1alpha1.GraphPlacement)
	groups, err := scheduler.GroupsOf(ctx, r.Client, of.Namespace, types.UID(of.Spec.DeploymentUID), client.DisableReadYourWritesConsistency)
	if err != nil {
		log.FromContext(ctx).Error(err, "listing the scaling groups of a GraphPlacement", "graphPlacement", of.Name)
		return nil
	}
	return requestsFor(groups)
}
