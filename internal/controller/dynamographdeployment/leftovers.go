// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package dynamographdeployment

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/controller/leftovers"
)

// leftoversAgain is the requeue delay while leftovers exist, because some of their kinds are not watched.
const leftoversAgain = 5 * time.Second

// leftover is an object of an earlier deployment of the same name that is still being deleted.
type leftover struct{ what string }

// Error implements error.
func (l *leftover) Error() string {
	return fmt.Sprintf("%s of an earlier deployment of this name is still being deleted", l.what)
}

func isLeftover(existing client.Object, dgd *nvidiav1beta1.DynamoGraphDeployment) bool {
	return leftovers.Of(existing, "DynamoGraphDeployment", dgd.Name, dgd.UID)
}

// waitsForLeftovers reports whether only leftovers keep children from being applied.
func waitsForLeftovers(failure error) bool {
	joined, ok := failure.(interface{ Unwrap() []error }) // the join of the errors of all children
	if !ok {
		return errors.As(failure, new(*leftover))
	}
	return !slices.ContainsFunc(joined.Unwrap(), func(err error) bool { return !waitsForLeftovers(err) })
}

// allLabelled lists the objects of all child kinds that have the deployment's label, with any owner or none.
func (r *Reconciler) allLabelled(ctx context.Context, dgd *nvidiav1beta1.DynamoGraphDeployment) ([]client.Object, error) {
	var out []client.Object
	for _, list := range append(ownedKinds(), &trellisv1alpha1.ScalingGroupList{}, &corev1.ServiceList{}) {
		items, err := r.labelled(ctx, dgd, list)
		if err != nil {
			return nil, err
		}
		for _, item := range items {
			out = append(out, item.(client.Object))
		}
	}
	return out, nil
}

// deleteLeftovers deletes the children of an earlier deployment of this name, including children whose names this deployment does not use.
// It leaves volume claims to the garbage collector, because the operator has no right to delete data. The controllers of scaling groups and
// of scaling adapters delete leftover pods and adapters.
func (r *Reconciler) deleteLeftovers(ctx context.Context, dgd *nvidiav1beta1.DynamoGraphDeployment, labelled []client.Object) error {
	found := slices.DeleteFunc(slices.Clone(labelled), func(object client.Object) bool { return !isLeftover(object, dgd) })
	return leftovers.DeleteAll(ctx, r.Client, r.Live, dgd, found)
}

// removeLeftover deletes a leftover with the name of a child. It returns the error leftover, because the child cannot be created until the
// leftover is gone.
func (r *Reconciler) removeLeftover(ctx context.Context, dgd *nvidiav1beta1.DynamoGraphDeployment, existing client.Object,
	kind string) error {
	if err := leftovers.DeleteAll(ctx, r.Client, r.Live, dgd, []client.Object{existing}); err != nil {
		return err
	}
	return &leftover{fmt.Sprintf("%s %s", kind, existing.GetName())}
}
