// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
)

// Amounts that no API server would take in a pod are refused with the deployment, in whichever container they are.
func TestContainerResources(t *testing.T) {
	const main = "spec.components[0].podTemplate.spec.containers[main].resources."
	for name, tc := range map[string]struct {
		containers string
		want       []string
	}{
		"as they should be": {containers: `[{name: main, image: i, resources: {requests: {cpu: 1, nvidia.com/gpu: 8}, limits: {memory: 1Gi, nvidia.com/gpu: 8}}}]`},
		"half a GPU": {`[{name: main, image: i, resources: {limits: {nvidia.com/gpu: "0.5"}}}]`,
			[]string{main + `limits[nvidia.com/gpu]: Invalid value: "500m": 500m is not a whole number, and devices cannot be split`}},
		"a request above the limit": {`[{name: main, image: i, resources: {requests: {cpu: 2}, limits: {cpu: 1}}}]`,
			[]string{main + `requests[cpu]: Invalid value: "2": request 2 is above limit 1; lower the request or raise the limit`}},
		"devices that differ": {`[{name: main, image: i, resources: {requests: {rdma/ib: 1}, limits: {rdma/ib: 2}}}]`,
			[]string{main + `requests[rdma/ib]: Invalid value: "1": request 1 and limit 2 differ; make them equal, or write only one`}},
		"negative": {`[{name: main, image: i, resources: {requests: {cpu: "-1"}}}]`, []string{main + `requests[cpu]: Invalid value: "-1": must not be negative`}},
		"too much to compare": {`[{name: main, image: i, resources: {requests: {cpu: "1"}, limits: {cpu: "1e999999999"}}}]`,
			[]string{main + `limits[cpu]: Invalid value: "1e999999999": 1e999999999 is out of range; no node has that much`}},
		"of a sidecar": {`[{name: main, image: i}, {name: log, image: i, resources: {limits: {nvidia.com/gpu: "1.5"}}}]`,
			[]string{`spec.components[0].podTemplate.spec.containers[log].resources.limits[nvidia.com/gpu]: Invalid value: "1500m": 1500m is not a whole number, and devices cannot be split`}},
	} {
		t.Run(name, func(t *testing.T) {
			dgd := &nvidiav1beta1.DynamoGraphDeployment{}
			text := "metadata: {name: g}\nspec: {components: [{name: Worker, type: worker, podTemplate: {spec: {containers: " + tc.containers + "}}}]}"
			if err := yaml.UnmarshalStrict([]byte(text), dgd); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, textsIn(GraphCreate(FromHub(dgd)), "v1beta1")); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// The container that serves is the one called main. Where none is, the refusal names those that there are.
func TestMainContainerIsNamed(t *testing.T) {
	const image = "spec.components[0].podTemplate.spec.containers[main].image: Required value: name the image of the main container"
	for name, tc := range map[string]struct {
		containers string
		want       []string
	}{
		"one called worker": {`[{name: worker, image: i}]`, []string{image + `: the container that serves has the name main, and none of ["worker"] has; rename the one that serves`}},
		"two others":        {`[{name: worker, image: i}, {name: log, image: i}]`, []string{image + `: the container that serves has the name main, and none of ["worker" "log"] has; rename the one that serves`}},
		"one without image": {`[{name: main}, {name: log, image: i}]`, []string{image}},
		"none":              {`[]`, []string{image}},
		"as it should be":   {containers: `[{name: log, image: i}, {name: main, image: i}]`},
	} {
		dgd := &nvidiav1beta1.DynamoGraphDeployment{}
		text := "metadata: {name: g}\nspec: {components: [{name: Worker, type: worker, podTemplate: {spec: {containers: " + tc.containers + "}}}]}"
		if err := yaml.UnmarshalStrict([]byte(text), dgd); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tc.want, textsIn(GraphCreate(FromHub(dgd)), "v1beta1")); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}
