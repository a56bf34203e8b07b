// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package api

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

var _ = Describe("DynamoWorkerMetadata", func() {
	const text = `
apiVersion: nvidia.com/v1alpha1
kind: DynamoWorkerMetadata
metadata: {name: worker-0}
spec: {data: {endpoints: {generate: {port: 9090}}, models: [{name: m}]}}`

	// A worker stores what its peers must know, in whatever form its version of Dynamo has.
	It("keeps data of any form", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		created, err := create(ctx, metadatas, object(text), metav1.DryRunAll)
		Expect(err).NotTo(HaveOccurred())
		port, _, _ := unstructured.NestedInt64(created.Object, "spec", "data", "endpoints", "generate", "port")
		Expect(port).To(BeEquivalentTo(9090))
	})

	It("is refused without data", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		_, err := create(ctx, metadatas, object(text, `{metadata: {name: worker-1}, spec: {data: null}}`), metav1.DryRunAll)
		Expect(err).To(refusal{"spec.data", "Required value"})
	})
})
