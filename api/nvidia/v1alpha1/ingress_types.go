// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// IngressSpec exposes a frontend.
//
// +kubebuilder:validation:XValidation:rule="!has(self.enabled) || !self.enabled || (has(self.host) && self.host.size() > 0)",fieldPath=".host",reason=FieldValueRequired,message="host is required when ingress is enabled"
type IngressSpec struct {
	// Enabled creates the Ingress.
	// +optional
	Enabled bool `json:"enabled,omitempty"`
	// Host name, without prefix and suffix. Required when enabled.
	// +optional
	Host string `json:"host,omitempty"`
	// UseVirtualService requests an Istio VirtualService.
	// +optional
	UseVirtualService bool `json:"useVirtualService,omitempty"`
	// VirtualServiceGateway of the VirtualService.
	// +optional
	VirtualServiceGateway *string `json:"virtualServiceGateway,omitempty"`
	// HostPrefix precedes host.
	// +optional
	HostPrefix *string `json:"hostPrefix,omitempty"`
	// HostSuffix follows host and a dot. Default "local".
	// +optional
	HostSuffix *string `json:"hostSuffix,omitempty"`
	// Annotations of the Ingress.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
	// Labels of the Ingress.
	// +optional
	Labels map[string]string `json:"labels,omitempty"`
	// TLS of the Ingress.
	// +optional
	TLS *IngressTLSSpec `json:"tls,omitempty"`
	// IngressControllerClassName is the ingress class.
	// +optional
	IngressControllerClassName *string `json:"ingressControllerClassName,omitempty"`
}

// IngressTLSSpec names the certificate of an Ingress.
type IngressTLSSpec struct {
	// SecretName of the certificate.
	// +optional
	SecretName string `json:"secretName,omitempty"`
}
