// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
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

func TestScalingAdapterRules(t *testing.T) {
	frozen := refusal{"spec.dgdRef", "dgdRef is immutable"}
	tests := map[string]struct {
		change string
		want   refusal
	}{
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
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			obj := mustCreate(t, adapters, object(t, scalingAdapter, "metadata: {name: "+objectName(t)+"}"))
			_, err := patch(t, adapters, obj.GetName(), tt.change)
			tt.want.check(t, err)
		})
	}
}

// What kubectl scale, a HorizontalPodAutoscaler, KEDA and the Dynamo planner go through.
func TestScalingAdapterScale(t *testing.T) {
	name := strings.Repeat("d", 63) + "-" + strings.Repeat("s", 63)
	mustCreate(t, adapters, object(t, scalingAdapter, "metadata: {name: "+name+"}"))
	numbers := func(scale *unstructured.Unstructured) [2]int64 {
		spec, _, _ := unstructured.NestedInt64(scale.Object, "spec", "replicas")
		status, _, _ := unstructured.NestedInt64(scale.Object, "status", "replicas")
		return [2]int64{spec, status}
	}
	scale, err := objectsOf(adapters).Get(t.Context(), name, metav1.GetOptions{}, "scale")
	if err != nil || scale.GetKind() != "Scale" || numbers(scale) != [2]int64{2, 0} {
		t.Fatalf("before there is a status: %v, %v", scale, err)
	}
	if _, err := patch(t, adapters, name, scalingAdapterStatus, "status"); err != nil {
		t.Fatal(err)
	}
	for _, n := range []string{"5", "0", "3"} {
		if scale, err = patch(t, adapters, name, "spec: {replicas: "+n+"}", "scale"); err != nil {
			t.Fatal(err)
		}
	}
	selector, _, _ := unstructured.NestedString(scale.Object, "status", "selector")
	if numbers(scale) != [2]int64{3, 1} || selector != "trellis.dev/scaling-group=my-llm-decode" {
		t.Errorf("scale is %v", scale)
	}
	obj, err := objectsOf(adapters).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil || obj.GetGeneration() != 4 {
		t.Errorf("the adapter is %v, %v", obj, err)
	}
}
