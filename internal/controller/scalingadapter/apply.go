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

// apply creates, adopts and deletes adapters. It never writes the spec of an existing adapter, which belongs to the autoscaler.
func (r *Reconciler) apply(ctx context.Context, dgd *deployment, s steps) error {
	var failures []error
	for _, a := range s.delete {
		if err := r.Client.Delete(ctx, a, client.Preconditions{UID: &a.UID}); err != nil && !apierrors.IsNotFound(err) &&
			!apierrors.IsConflict(err) {
			failures = append(failures, fmt.Errorf("deleting scaling adapter %s: %w", a.Name, err))
		}
	}
	// the deletion events of the leftovers trigger the next reconcile
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

// create creates an adapter, unless the cache shows an adapter of this name. Such an existing adapter belongs to another deployment whose
// name and component give the same adapter name ("a-b" with component c, "a" with component b-c). The scaling groups of the two components
// then have the same name too, and the graph controller reports this conflict. An AlreadyExists error is ignored, because it means that the
// cache does not show the adapter yet.
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

// carrying returns a patch that changes only the replica counts of components. The patch causes a conflict if the deployment has changed
// since it was read, because the indices in the patch may then be wrong.
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

// outcome is the result of writing the adapters' replica counts into the deployment.
type outcome struct {
	// scaled are the components whose replica count was just changed.
	scaled map[string]bool
	// refused is, by component, the reason why a replica count is refused.
	refused map[string]string
	// failed is, by component, the error, other than a refusal, that prevented the write of a replica count.
	failed map[string]string
}

// carry writes the adapters' replica counts into the deployment in one patch. If the deployment has changed since it was read, its event
// triggers another reconcile, which determines again which object owns each replica count.
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

// isRefusal reports whether the API server refused the request with a 4xx code, except 429. Other errors, such as a 5xx code because of a
// slow webhook, or a missing response, do not mean that the request is wrong.
func isRefusal(err error) bool {
	status := apierrors.APIStatus(nil)
	if !errors.As(err, &status) || apierrors.IsTooManyRequests(err) {
		return false
	}
	code := status.Status().Code
	return code >= http.StatusBadRequest && code < http.StatusInternalServerError
}
