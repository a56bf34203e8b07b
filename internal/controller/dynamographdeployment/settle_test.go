// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package dynamographdeployment

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
)

// A component whose adapter says another number keeps what it has, and then the bound holds for all of them.
func TestSettleBy(t *testing.T) {
	dgd := &nvidiav1beta1.DynamoGraphDeployment{ObjectMeta: metav1.ObjectMeta{Name: "g", UID: "1"}}
	dgd.Spec.Components = []nvidiav1beta1.ComponentSpec{
		{Name: "scaled", Replicas: ptr.To[int32](2), ScalingAdapter: &nvidiav1beta1.ScalingAdapter{}},
		{Name: "work", Replicas: ptr.To[int32](8)},
	}
	adapter := nvidiav1beta1.DynamoGraphDeploymentScalingAdapter{ObjectMeta: metav1.ObjectMeta{Name: "g-scaled", OwnerReferences: []metav1.OwnerReference{
		*metav1.NewControllerRef(dgd, nvidiav1beta1.GroupVersion.WithKind("DynamoGraphDeployment")),
	}}}
	adapter.Spec.Replicas, adapter.Spec.DGDRef = 9, nvidiav1beta1.ScaledComponent{Name: "g", ComponentName: "scaled"}
	scaled := &trellisv1alpha1.ScalingGroup{}
	scaled.Spec.Replicas, scaled.Status.Replicas, scaled.Spec.Roles = 4, 4, []trellisv1alpha1.Role{{Count: 1}}
	o := observed{
		dgd: dgd, groups: map[string]*trellisv1alpha1.ScalingGroup{"scaled": scaled},
		adapters: []nvidiav1beta1.DynamoGraphDeploymentScalingAdapter{adapter},
	}
	for name, c := range map[string]struct {
		maxPods      int64
		scaled, work int32
		overLimit    string
	}{
		"without a bound":  {0, 4, 8, ""},
		"within the bound": {12, 4, 8, ""},
		"beyond it":        {10, 4, 6, "more than the 10 that one graph may have (--max-pods-per-graph); work has 6 of 8 replicas; pods that exist are kept"},
	} {
		settled, overLimit := settleBy(o, o.groups, c.maxPods)
		if got := [2]int32{*settled.Component("scaled").Replicas, *settled.Component("work").Replicas}; got != [2]int32{c.scaled, c.work} {
			t.Errorf("%s: %v replicas, want %d and %d", name, got, c.scaled, c.work)
		}
		if !strings.Contains(overLimit, c.overLimit) || (overLimit == "") != (c.overLimit == "") {
			t.Errorf("%s: %q does not say %q", name, overLimit, c.overLimit)
		}
	}
	if got := *dgd.Component("scaled").Replicas; got != 2 {
		t.Errorf("the deployment itself was changed: %d", got)
	}
}
