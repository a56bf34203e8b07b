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

// Reader gets ClusterTopologies, or else Bindings as ClusterTopologies, past the cache. It lists ClusterTopologies only.
type Reader struct{ client.Reader }

// Get implements client.Reader.
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
	if err != nil || ct == nil {
		return missing
	}
	ct.DeepCopyInto(into)
	return nil
}
