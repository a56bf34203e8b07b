// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// DynamoWorkerMetadataSpec is the announcement of one worker pod to its peers.
type DynamoWorkerMetadataSpec struct {
	// Data is the worker's endpoints and models, in Dynamo's own format; kept as written.
	Data FreeObject `json:"data"`
}

// DynamoWorkerMetadata lets Dynamo's pods find each other through the API server: each worker pod writes an object about itself. Trellis
// only installs the definition and grants access to it.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=dynamoworkermetadatas,singular=dynamoworkermetadata,shortName=dwm,categories=dynamo
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type DynamoWorkerMetadata struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is written by the worker's pod.
	// +optional
	Spec DynamoWorkerMetadataSpec `json:"spec,omitzero"`
}

// DynamoWorkerMetadataList is a list of DynamoWorkerMetadata.
//
// +kubebuilder:object:root=true
type DynamoWorkerMetadataList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []DynamoWorkerMetadata `json:"items"`
}
