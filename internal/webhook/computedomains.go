// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/field"
	"github.com/trellis-k8s/trellis/internal/nvlink"
	"github.com/trellis-k8s/trellis/internal/validation"
)

// +kubebuilder:rbac:groups=resource.nvidia.com,resources=computedomains,verbs=list
// +kubebuilder:rbac:groups=resource.k8s.io,resources=resourceclaimtemplates,verbs=get

// maxComputeDomains bounds the number of ComputeDomains that one request reads in a namespace.
const maxComputeDomains = 500

// cliques warns about pods that share an NVLink domain but may be placed in different cliques. Failed reads cause no warning, because a
// cluster need not have the DRA driver.
func (v *deploymentValidator) cliques(ctx context.Context, dgd *nvidiav1beta1.DynamoGraphDeployment,
	topology *grovev1alpha1.ClusterTopology) []field.Text {
	if v.live == nil || !validation.AsksForCliques(dgd, topology) {
		return nil
	}
	domains := v.computeDomains(ctx, dgd.Namespace)
	known := map[string]bool{}
	for i := range domains {
		known[domains[i].Template()] = true
	}
	for _, name := range nvlink.TemplatesOf(dgd) {
		if !known[name] && v.isChannel(ctx, client.ObjectKey{Namespace: dgd.Namespace, Name: name}) {
			domains = append(domains, nvlink.OfTemplate(name))
		}
	}
	return validation.CliqueWarnings(dgd, topology, domains)
}

func (v *deploymentValidator) computeDomains(ctx context.Context, namespace string) (domains []nvlink.ComputeDomain) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(nvlink.GroupVersion.WithKind(nvlink.Kind + "List"))
	if err := v.live.List(ctx, list, client.InNamespace(namespace), client.Limit(maxComputeDomains)); err != nil {
		log.FromContext(ctx).V(1).Info("ComputeDomains cannot be read", "why", err.Error())
		return nil
	}
	for i := range list.Items {
		one := nvlink.ComputeDomain{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(list.Items[i].Object, &one); err == nil {
			domains = append(domains, one)
		}
	}
	return domains
}

// isChannel reports whether a claim template belongs to a ComputeDomain. It does not read the ComputeDomain, which may be gone or
// unreadable.
func (v *deploymentValidator) isChannel(ctx context.Context, key client.ObjectKey) bool {
	template := &resourcev1.ResourceClaimTemplate{}
	return v.live.Get(ctx, key, template) == nil && nvlink.IsChannel(&template.Spec.Spec)
}
