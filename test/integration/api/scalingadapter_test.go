// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

const scalingAdapter = `
apiVersion: nvidia.com/v1alpha1
kind: DynamoGraphDeploymentScalingAdapter
spec: {replicas: 2, dgdRef: {name: my-llm, serviceName: Decode}}
`

const scalingAdapterStatus = `
status:
  observedGeneration: 1
  replicas: 1
  selector: trellis.dev/scaling-group=my-llm-decode
  lastScaleTime: "2026-01-01T00:00:00Z"
  conditions: [{type: Active, status: "True", reason: OwnsReplicas, message: m, observedGeneration: 1, lastTransitionTime: "2026-01-01T00:00:00Z"}]
`

var _ = Describe("DynamoGraphDeploymentScalingAdapter", func() {
	frozen := refusal{"spec.dgdRef", "dgdRef is immutable"}
	type update struct {
		change string
		want   refusal
	}
	DescribeTable("takes a change, or refuses it at the field at fault", func(ctx SpecContext, tt update) {
		mustCreate(ctx, adapters, object(scalingAdapter, named()))
		_, err := patch(ctx, adapters, namespace, tt.change)
		Expect(err).To(tt.want)
	}, suite.Entries(map[string]update{
		"scaled":           {change: `spec: {replicas: 7}`},
		"to zero":          {change: `spec: {replicas: 0}`},
		"negative":         {change: `spec: {replicas: -1}`, want: refusal{"spec.replicas", "should be greater than or equal to 0"}},
		"to the bound":     {change: `spec: {replicas: 65536}`},
		"beyond the bound": {change: `spec: {replicas: 65537}`, want: refusal{"spec.replicas", "should be less than or equal to 65536"}},
		"no replicas":      {change: `spec: {replicas: null}`, want: refusal{"spec.replicas", "Required value"}},
		"another service":  {change: `spec: {dgdRef: {serviceName: Prefill}}`, want: frozen},
		"another graph":    {change: `spec: {dgdRef: {name: other}}`, want: frozen},
		"service too long": {change: `spec: {dgdRef: {serviceName: ` + strings.Repeat("s", 64) + `}}`, want: refusal{"spec.dgdRef.serviceName", "may not be more than 63"}},
		"no such deployment, which the operator says in a condition": {change: `metadata: {labels: {a: b}}`},
	}))

	// What kubectl scale, a HorizontalPodAutoscaler, KEDA and the Dynamo planner go through.
	It("is scaled by its subresource scale", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		name := strings.Repeat("d", 63) + "-" + strings.Repeat("s", 63)
		mustCreate(ctx, adapters, object(scalingAdapter, "metadata: {name: "+name+"}"))
		numbers := func(scale *unstructured.Unstructured) [2]int64 {
			spec, _, _ := unstructured.NestedInt64(scale.Object, "spec", "replicas")
			status, _, _ := unstructured.NestedInt64(scale.Object, "status", "replicas")
			return [2]int64{spec, status}
		}
		scale, err := objectsOf(adapters).Get(ctx, name, metav1.GetOptions{}, "scale")
		Expect(err).NotTo(HaveOccurred())
		Expect(scale.GetKind()).To(Equal("Scale"))
		Expect(numbers(scale)).To(Equal([2]int64{2, 0}), "before there is a status")

		mustPatch(ctx, adapters, name, scalingAdapterStatus, "status")
		for _, n := range []string{"5", "0", "3"} {
			scale = mustPatch(ctx, adapters, name, "spec: {replicas: "+n+"}", "scale")
		}
		Expect(numbers(scale)).To(Equal([2]int64{3, 1}))
		selector, _, _ := unstructured.NestedString(scale.Object, "status", "selector")
		Expect(selector).To(Equal("trellis.dev/scaling-group=my-llm-decode"))
		obj, err := objectsOf(adapters).Get(ctx, name, metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(obj.GetGeneration()).To(BeEquivalentTo(4))
	})
})
