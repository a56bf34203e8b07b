// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scalingadapter

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/trellis-k8s/trellis/internal/controller/leftovers"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/replicas"
)

// apply makes, takes over and deletes adapters. The spec of one that exists is never written here: it is the autoscaler's.
func (r *Reconciler) apply(ctx context.Context, dgd *deployment, s steps) error {
	var failures []error
	for _, a := range s.delete {
		if err := r.Client.Delete(ctx, a, client.Preconditions{UID: &a.UID}); err != nil && !apierrors.IsNotFound(err) &&
			!apierrors.IsConflict(err) {
			failures = append(failures, fmt.Errorf("deleting scaling adapter %s: %w", a.Name, err))
		}
	}
	// the event of their end brings the next reconcile
	failures = append(failures, leftovers.DeleteAll(ctx, r.Client, r.Live, dgd, s.leftovers))
	for _, a := range s.adopt {
		adopted := a.DeepCopy()
		adopted.OwnerReferences = append(adopted.OwnerReferences, ownerReference(dgd))
		patch := client.MergeFromWithOptions(a, client.MergeFromWithOptimisticLock{})
		if err := r.Client.Patch(ctx, adopted, patch, client.FieldOwner(render.FieldOwner)); err != nil && !apierrors.IsNotFound(err) &&
			!apierrors.IsConflict(err) {
			failures = append(failures, fmt.Errorf("taking over scaling adapter %s: %w", a.Name, err))
		}
	}
	for _, a := range s.create {
		failures = append(failures, r.create(ctx, a))
	}
	return errors.Join(failures...)
}

// create makes an adapter. One of this name that names another deployment ("a-b" with component c, "a" with component b-c) is left alone;
// the scaling groups of the two have one name as well, and the graph controller reports that. One that appears only now is merely not in
// the cache yet.
func (r *Reconciler) create(ctx context.Context, a *adapter) error {
	err := r.Client.Get(ctx, client.ObjectKeyFromObject(a), &adapter{})
	if apierrors.IsNotFound(err) {
		err = r.Client.Create(ctx, a, client.FieldOwner(render.FieldOwner))
	}
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating scaling adapter %s: %w", a.Name, err)
	}
	return nil
}

// carrying is a patch of nothing but the numbers. It conflicts when the deployment has changed since it was read, so that the indices hold.
func carrying(dgd *deployment, numbers map[string]int32) (client.Patch, error) {
	type operation struct {
		Op    string `json:"op"`
		Path  string `json:"path"`
		Value any    `json:"value"`
	}
	operations := []operation{{"replace", "/metadata/resourceVersion", dgd.ResourceVersion}}
	for i := range dgd.Spec.Components {
		if n, ok := numbers[dgd.Spec.Components[i].Name]; ok {
			operations = append(operations, operation{"add", fmt.Sprintf("/spec/components/%d/replicas", i), n})
		}
	}
	raw, err := json.Marshal(operations)
	if err != nil {
		return nil, fmt.Errorf("writing the patch of the replicas: %w", err)
	}
	return client.RawPatch(types.JSONPatchType, raw), nil
}

// outcome is what became of the adapters' numbers.
type outcome struct {
	// scaled are the components whose number was changed just now.
	scaled map[string]bool
	// refused says, by component, why a number is not followed.
	refused map[string]string
	// failed says, by component, why a number could not be written yet although no one refuses it.
	failed map[string]string
}

// carry writes the adapters' numbers into the deployment, all in one patch. It holds for the deployment as it was read: when that has
// changed since, the news of the change brings the next reconcile, which looks again who owns what.
func (r *Reconciler) carry(ctx context.Context, o observed) (outcome, error) {
	numbers, refused := replicas.ToCarry(o.dgd, o.adapters, r.MaxPods)
	out := outcome{scaled: map[string]bool{}, refused: refused, failed: map[string]string{}}
	if len(numbers) == 0 {
		return out, nil
	}
	patch, err := carrying(o.dgd, numbers)
	if err != nil {
		return out, err
	}
	err = r.Client.Patch(ctx, o.dgd.DeepCopy(), patch, client.FieldOwner(render.FieldOwner))
	switch {
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return out, nil
	case err != nil:
		why := out.failed
		if isRefusal(err) {
			why = refused
		}
		for component := range numbers {
			why[component] = err.Error()
		}
		return out, fmt.Errorf("carrying the replicas of %d scaling adapters into the deployment: %w", len(numbers), err)
	}
	for component, n := range numbers {
		out.scaled[component] = true
		log.FromContext(ctx).Info("scaling a component", "service", component, "from", replicas.Of(o.dgd.Component(component)), "to", n)
	}
	return out, nil
}

// isRefusal reports whether an error is an answer to what was asked for, 4xx. Others, such as 5xx of a webhook that is too slow, and no
// answer at all, say nothing about it.
func isRefusal(err error) bool {
	status := apierrors.APIStatus(nil)
	if !errors.As(err, &status) || apierrors.IsTooManyRequests(err) {
		return false
	}
	code := status.Status().Code
	return code >= http.StatusBadRequest && code < http.StatusInternalServerError
}
