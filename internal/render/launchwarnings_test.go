// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/field"
	"github.com/trellis-k8s/trellis/test/testutil/hub"
)

func TestLaunchWarnings(t *testing.T) {
	dgd := &nvidiav1alpha1.DynamoGraphDeployment{}
	const text = `
spec:
  services:
    single: {}
    vllm: {multinode: {nodeCount: 2}, extraPodSpec: {mainContainer: {command: [python3, -m, dynamo.vllm]}}}
    trt: {multinode: {nodeCount: 2}, resources: {limits: {gpu: "4"}}, extraPodSpec: {mainContainer: {command: [python3, -m, dynamo.trtllm]}}}
    a: {multinode: {nodeCount: 2}}
    b: {multinode: {nodeCount: 2}}
    c: {multinode: {nodeCount: 2}}
    d: {multinode: {nodeCount: 2}}
`
	if err := yaml.UnmarshalStrict([]byte(text), dgd); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"spec.services[*].multinode: the command does not show how the pods form one program, so each starts as written; it finds the others by $TRELLIS_LEADER_ADDRESS, $TRELLIS_HOSTS and $TRELLIS_POD_INDEX (a, b, c and 1 more)",
	}
	if diff := cmp.Diff(want, launchWarnings(hub.Of(dgd))); diff != "" {
		t.Error(diff)
	}
}

func launchWarnings(dgd *nvidiav1beta1.DynamoGraphDeployment) []string {
	return field.In(LaunchWarnings(dgd, alphaOnly(dgd)), "v1alpha1")
}
