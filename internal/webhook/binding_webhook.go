// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/topologybinding"
)

var _ admission.Validator[*topologybinding.Binding] = &bindingValidator{}

// bindingValidator warns about changes of a Binding, as topologyValidator does for a ClusterTopology. It refuses nothing, because Grove
// validates Bindings. It ignores Bindings that Trellis wrote, and changes of a Binding that has the same name as a ClusterTopology.
type bindingValidator struct {
	topologyValidator
	// live reads topologies from the API server.
	live client.Reader
}

// ValidateCreate implements admission.Validator.
func (v *bindingValidator) ValidateCreate(_ context.Context, b *topologybinding.Binding) (admission.Warnings, error) {
	_, warnings := readBinding(b)
	return warnings, nil
}

// ValidateUpdate implements admission.Validator.
func (v *bindingValidator) ValidateUpdate(ctx context.Context, old, updated *topologybinding.Binding) (admission.Warnings, error) {
	was, _ := readBinding(old)
	now, warnings := readBinding(updated)
	if was == nil || updated.DeletionTimestamp != nil || v.shadowed(ctx, old.Name) {
		return warnings, nil
	}
	return append(warnings, v.warn(ctx, now, was)...), nil
}

// ValidateDelete implements admission.Validator.
func (v *bindingValidator) ValidateDelete(ctx context.Context, b *topologybinding.Binding) (admission.Warnings, error) {
	was, _ := readBinding(b)
	if was == nil || v.shadowed(ctx, b.Name) {
		return nil, nil
	}
	return v.warn(ctx, nil, was), nil
}

// readBinding returns a Binding in the form of a ClusterTopology, or nil and the reason why the Binding cannot be read.
func readBinding(b *topologybinding.Binding) (*grovev1alpha1.ClusterTopology, admission.Warnings) {
	ct, err := topologybinding.Read(b)
	if err != nil {
		return nil, admission.Warnings{fmt.Sprintf("%s; until then it is no topology for DynamoGraphDeployments", err)}
	}
	return ct, nil
}

// shadowed reports whether a ClusterTopology has the same name as the Binding and so overrides it. If the ClusterTopology cannot be read,
// shadowed returns false, and an unnecessary warning may result.
func (v *bindingValidator) shadowed(ctx context.Context, name string) bool {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	ct := &grovev1alpha1.ClusterTopology{}
	return v.live.Get(ctx, client.ObjectKey{Name: name}, ct) == nil && !ct.FromBinding()
}
