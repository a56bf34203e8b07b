// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"maps"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
)

const defaultHostSuffix = "local"

// ingress returns the Ingress that routes requests for a host name to a frontend. Without a class, the cluster's default ingress controller
// serves the Ingress. If the deployment requests only Istio, ingress returns none.
func (g *Graph) ingress(s *Component, in *nvidiav1alpha1.IngressSpec) []Object {
	if !wantsIngress(s.ComponentType, in) {
		return nil
	}
	meta := g.componentMeta(s, s.ServiceName)
	maps.Copy(meta.Labels, in.Labels)
	meta.Labels[LabelManagedBy] = ManagedBy
	if len(in.Annotations) > 0 && meta.Annotations == nil {
		meta.Annotations = map[string]string{}
	}
	maps.Copy(meta.Annotations, in.Annotations)
	host := ingressHost(in)
	backend := networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{
		Name: s.ServiceName, Port: networkingv1.ServiceBackendPort{Number: httpPort},
	}}
	path := networkingv1.HTTPIngressPath{Path: "/", PathType: ptr.To(networkingv1.PathTypePrefix), Backend: backend}
	out := &networkingv1.Ingress{
		TypeMeta:   metav1.TypeMeta{APIVersion: networkingv1.SchemeGroupVersion.String(), Kind: "Ingress"},
		ObjectMeta: meta,
		Spec: networkingv1.IngressSpec{
			IngressClassName: in.IngressControllerClassName,
			Rules: []networkingv1.IngressRule{{Host: host, IngressRuleValue: networkingv1.IngressRuleValue{
				HTTP: &networkingv1.HTTPIngressRuleValue{Paths: []networkingv1.HTTPIngressPath{path}},
			}}},
		},
	}
	if in.TLS != nil && in.TLS.SecretName != "" {
		out.Spec.TLS = []networkingv1.IngressTLS{{Hosts: []string{host}, SecretName: in.TLS.SecretName}}
	}
	return []Object{out}
}

func wantsIngress(componentType string, in *nvidiav1alpha1.IngressSpec) bool {
	if in == nil || !in.Enabled || componentType != typeFrontend {
		return false
	}
	return !in.UseVirtualService || ptr.Deref(in.IngressControllerClassName, "") != ""
}

// ingressHost returns the host name: the prefix, the host, a dot and the suffix.
func ingressHost(in *nvidiav1alpha1.IngressSpec) string {
	suffix := ptr.Deref(in.HostSuffix, "")
	if suffix == "" {
		suffix = defaultHostSuffix
	}
	return ptr.Deref(in.HostPrefix, "") + in.Host + "." + suffix
}
