// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package topologies

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/topologybinding"
)

// Reader gets ClusterTopologies, or else Bindings as ClusterTopologies, past the cache. Its List returns ClusterTopologies only.
type Reader struct{ client.Reader }

// UnusableError reports a Binding that cannot be a ClusterTopology. Reason contains the field and the fix.
type UnusableError struct {
	Name   string
	Reason error
}

func (e *UnusableError) Error() string {
	return fmt.Sprintf("ClusterTopologyBinding %q cannot be used: %v", e.Name, e.Reason)
}

// Unwrap returns the reason.
func (e *UnusableError) Unwrap() error { return e.Reason }

// Get implements client.Reader. It returns an [UnusableError] for a Binding that cannot be a ClusterTopology.
func (r Reader) Get(ctx context.Context, key client.ObjectKey, object client.Object, opts ...client.GetOption) error {
	missing := r.Reader.Get(ctx, key, object, opts...)
	into, is := object.(*grovev1alpha1.ClusterTopology)
	if !is || !apierrors.IsNotFound(missing) {
		return missing
	}
	binding := &topologybinding.Binding{}
	switch err := r.Reader.Get(ctx, key, binding, opts...); {
	case apierrors.IsNotFound(err) || meta.IsNoMatchError(err): // no such Binding, or the kind is not served
		return missing
	case err != nil:
		return fmt.Errorf("ClusterTopologyBinding: %w", err)
	}
	ct, err := topologybinding.Read(binding)
	if err != nil {
		return &UnusableError{Name: key.Name, Reason: err}
	}
	if ct == nil { // Trellis wrote the Binding
		return missing
	}
	ct.DeepCopyInto(into)
	return nil
}
