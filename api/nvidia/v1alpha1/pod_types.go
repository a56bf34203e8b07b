// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"bytes"
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
)

// ExtraPodMetadata is merged into the pods' metadata.
type ExtraPodMetadata struct {
	// Annotations of the pods.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
	// Labels of the pods.
	// +optional
	Labels map[string]string `json:"labels,omitempty"`
}

// ExtraPodSpec is a pod spec to merge in, and the main container. Its field containers is optional.
type ExtraPodSpec struct {
	// +optional
	*corev1.PodSpec `json:",inline"`
	// MainContainer is merged over the service's default container.
	// +optional
	MainContainer *corev1.Container `json:"mainContainer,omitempty"`
}

// MarshalJSON omits containers if it is nil: PodSpec would write null, which the API server refuses.
func (e ExtraPodSpec) MarshalJSON() ([]byte, error) {
	type plain ExtraPodSpec
	raw, err := json.Marshal(plain(e))
	if err != nil || e.PodSpec == nil || e.Containers != nil {
		return raw, err
	}
	return bytes.Replace(raw, []byte(`"containers":null,`), nil, 1), nil
}
