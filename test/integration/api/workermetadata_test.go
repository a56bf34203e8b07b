// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var metadatas = schema.GroupVersionResource{Group: "nvidia.com", Version: "v1alpha1", Resource: "dynamoworkermetadatas"}

var strictly = metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict, DryRun: []string{metav1.DryRunAll}}

// A worker keeps what its peers must know, in whatever form its version of Dynamo has.
func TestWorkerMetadataKeepsItsData(t *testing.T) {
	const text = `
apiVersion: nvidia.com/v1alpha1
kind: DynamoWorkerMetadata
metadata: {name: worker-0}
spec: {data: {endpoints: {generate: {port: 9090}}, models: [{name: m}]}}`
	obj := object(t, text)
	created, err := client.Resource(metadatas).Namespace(namespace).Create(t.Context(), obj, strictly)
	if err != nil {
		t.Fatal(err)
	}
	if got, _, _ := unstructured.NestedInt64(created.Object, "spec", "data", "endpoints", "generate", "port"); got != 9090 {
		t.Errorf("kept %v", created.Object["spec"])
	}
	_, err = client.Resource(metadatas).Namespace(namespace).Create(t.Context(), object(t, text, `{metadata: {name: worker-1}, spec: {data: null}}`), strictly)
	refusal{"spec.data", "Required value"}.check(t, err)
}
