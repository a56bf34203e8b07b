// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// fieldOwner is the field manager for the certificate authority in webhook configurations and CustomResourceDefinitions.
const fieldOwner = "trellis-cert-rotator"

// The rotator (open-policy-agent/cert-controller) can also inject the authority into CustomResourceDefinitions. But it then lists and
// watches all definitions of the cluster with their schemas, needs the permissions for this, and ends the program if a definition has no
// conversion. This package therefore watches each definition by name, and patches one field of it.
//
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,resourceNames=dynamographdeployments.nvidia.com;dynamographdeploymentscalingadapters.nvidia.com,verbs=get;list;watch;patch

// injectAuthority writes the certificate authority into the CustomResourceDefinitions whose objects this operator converts.
func (f *follower) injectAuthority(ctx context.Context, authority []byte) error {
	definitions, err := f.definitions(ctx)
	if err != nil {
		return err
	}
	for _, crd := range definitions {
		if bytes.Equal(crd.Spec.Conversion.Webhook.ClientConfig.CABundle, authority) {
			continue
		}
		patch, err := json.Marshal(map[string]any{
			"metadata": map[string]any{"resourceVersion": crd.ResourceVersion},
			"spec": map[string]any{"conversion": map[string]any{"webhook": map[string]any{"clientConfig": map[string]any{
				"caBundle": authority}}}},
		})
		if err != nil {
			return fmt.Errorf("writing a patch of definition %s: %w", crd.Name, err)
		}
		err = f.writer.Patch(ctx, crd.DeepCopy(), client.RawPatch(types.MergePatchType, patch), client.FieldOwner(fieldOwner))
		if err != nil && !apierrors.IsConflict(err) { // the other writer's change triggers an event
			return fmt.Errorf("writing the authority into definition %s: %w", crd.Name, err)
		}
	}
	return nil
}

// definitions returns the existing CustomResourceDefinitions whose conversion webhook is this operator's Service.
func (f *follower) definitions(ctx context.Context) ([]*apiextensionsv1.CustomResourceDefinition, error) {
	var found []*apiextensionsv1.CustomResourceDefinition
	for _, name := range f.opts.Definitions {
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := f.reader.Get(ctx, types.NamespacedName{Name: name}, crd); err != nil {
			if apierrors.IsNotFound(err) {
				continue
			}
			return nil, fmt.Errorf("reading definition %s: %w", name, err)
		}
		if f.converts(crd) {
			found = append(found, crd)
		}
	}
	return found, nil
}

func (f *follower) converts(crd *apiextensionsv1.CustomResourceDefinition) bool {
	conversion := crd.Spec.Conversion
	if conversion == nil || conversion.Webhook == nil || conversion.Webhook.ClientConfig == nil ||
		conversion.Webhook.ClientConfig.Service == nil {
		return false
	}
	service := conversion.Webhook.ClientConfig.Service
	return service.Namespace == f.opts.Namespace && service.Name == f.opts.ServiceName
}

// isTrusted reports whether all webhook configurations and CustomResourceDefinitions contain the certificate authority. Until then, the API
// server rejects the certificate.
func (f *follower) isTrusted(ctx context.Context, authority []byte) (bool, error) {
	definitions, err := f.definitions(ctx)
	if err != nil {
		return false, err
	}
	var mutating admissionregistrationv1.MutatingWebhookConfiguration
	var validating admissionregistrationv1.ValidatingWebhookConfiguration
	for name, object := range map[string]client.Object{f.opts.MutatingWebhookConfig: &mutating, f.opts.ValidatingWebhookConfig: &validating} {
		if err := f.reader.Get(ctx, types.NamespacedName{Name: name}, object); err != nil && !apierrors.IsNotFound(err) {
			return false, fmt.Errorf("reading %T %s: %w", object, name, err)
		}
	}
	var bundles [][]byte
	for _, crd := range definitions {
		bundles = append(bundles, crd.Spec.Conversion.Webhook.ClientConfig.CABundle)
	}
	for i := range mutating.Webhooks {
		bundles = append(bundles, mutating.Webhooks[i].ClientConfig.CABundle)
	}
	for i := range validating.Webhooks {
		bundles = append(bundles, validating.Webhooks[i].ClientConfig.CABundle)
	}
	for _, bundle := range bundles {
		if !bytes.Equal(bundle, authority) {
			return false, nil
		}
	}
	return true, nil
}
