// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package dynamographdeployment

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/yaml"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
	"github.com/trellis-k8s/trellis/test/testutil/hub"
)

func TestPrerequisites(t *testing.T) {
	const kind = nvidiav1beta1.ConditionPrerequisitesMet
	conditionOf := func(o observed, kind string) string {
		c := meta.FindStatusCondition(statusOf(o, resolved, nil, nil).Conditions, kind)
		if c == nil {
			return ""
		}
		return string(c.Status) + "/" + c.Reason + ": " + c.Message
	}
	o := fine()
	if got := conditionOf(o, kind); got != "" {
		t.Errorf("nothing is presupposed: %s", got)
	}
	o.prerequisites.any = true
	if got := conditionOf(o, kind); !strings.HasPrefix(got, "True/AllPrerequisitesMet") {
		t.Errorf("all is there: %s", got)
	}
	o.prerequisites.missing = []string{"PersistentVolumeClaim a does not exist", "PersistentVolumeClaim b does not exist"}
	if got := conditionOf(o, kind); got != "False/PrerequisitesMissing: PersistentVolumeClaim a does not exist. PersistentVolumeClaim b does not exist" {
		t.Error(got)
	}
	if got := conditionOf(o, nvidiav1beta1.ConditionReady); !strings.HasPrefix(got, "True/") {
		t.Errorf("what runs needs it no more: %s", got)
	}
	o.groups["work"].Status.ReadyReplicas = 1
	if got := conditionOf(o, nvidiav1beta1.ConditionReady); !strings.HasSuffix(got, "desired=2, ready=1. Missing: PersistentVolumeClaim a does not exist. PersistentVolumeClaim b does not exist") {
		t.Error(got)
	}
}

// TestPrerequisitesAreForgotten: the last claim is no longer mounted, so the condition goes.
func TestPrerequisitesAreForgotten(t *testing.T) {
	o := fine()
	o.prerequisites = prerequisites{any: true, missing: []string{"PersistentVolumeClaim a does not exist"}}
	o.dgd.Status = statusOf(o, resolved, nil, nil)
	o.prerequisites = prerequisites{}
	if c := meta.FindStatusCondition(statusOf(o, resolved, nil, nil).Conditions, nvidiav1beta1.ConditionPrerequisitesMet); c != nil {
		t.Errorf("still there: %v", c)
	}
}

func TestClaimsAreNotCounted(t *testing.T) {
	o := fine()
	sg := o.groups["work"]
	sg.Spec.Provider, sg.Spec.Multinode = specs.Gates.Name, true
	message := func() string {
		return meta.FindStatusCondition(statusOf(o, resolved, nil, nil).Conditions, nvidiav1beta1.ConditionPlaced).Message
	}
	if got := message(); strings.Contains(got, "counted") {
		t.Errorf("no claims: %s", got)
	}
	o.result.UncountedClaims = map[string]string{"work": "ResourceSlice x has compatibility groups"}
	if got := message(); !strings.Contains(got, "Resource claims of work are not counted (ResourceSlice x has compatibility groups): the kube-scheduler") {
		t.Error(got)
	}
	o.result.UncountedClaims, o.result.UncountedVolumes = nil, map[string]string{"work": "claim models, storage class fast"}
	if got := message(); !strings.Contains(got, "Volumes of work are not counted (not known: claim models, storage class fast): the operator could not") {
		t.Error(got)
	}
	o.result.UncountedVolumes = nil
	o.result.Uncounted = []gang.Uncounted{{Resource: "example.com/nic", Components: []string{"a", "b"}}, {Resource: "nvidia.com/gpu", Components: []string{"work"}}, {Resource: "x"}, {Resource: "y"}}
	want := ". example.com/nic of a, b is not counted on nodes where a DeviceClass serves it: the kube-scheduler decides whether they have the devices" +
		". nvidia.com/gpu of work is not counted on nodes where a DeviceClass serves it: the kube-scheduler decides whether they have the devices" +
		". 2 more resources are not counted"
	if got := message(); !strings.HasSuffix(got, want) {
		t.Errorf("%q, want it to end with %q", got, want)
	}
}

func TestClaimNames(t *testing.T) {
	dgd := &nvidiav1alpha1.DynamoGraphDeployment{}
	const text = `
spec:
  pvcs: [{name: listed}, {create: true, name: made}]
  services:
    none: null
    a: {volumeMounts: [{name: mounted, mountPoint: /m}]}
    b: {extraPodSpec: {volumes: [{name: x, persistentVolumeClaim: {claimName: own}}, {name: z, emptyDir: {}}]}}
`
	if err := yaml.UnmarshalStrict([]byte(text), dgd); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"listed", "made", "mounted", "own"}, claimNames(hub.Of(dgd))); diff != "" {
		t.Error(diff)
	}
}
