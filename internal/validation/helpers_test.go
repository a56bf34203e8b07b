// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/field"
	"github.com/trellis-k8s/trellis/test/testutil/hub"
)

type (
	deployment    = nvidiav1alpha1.DynamoGraphDeployment
	componentSpec = nvidiav1alpha1.ServiceSpec
)

// newGraph is a deployment nothing is wrong with: a multinode component Worker in a rack, a single-node component Frontend, all in one zone.
func newGraph(changes ...func(*deployment)) *deployment {
	dgd := &deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "llm", Namespace: "team", Annotations: map[string]string{}},
		Spec: nvidiav1alpha1.DynamoGraphDeploymentSpec{
			TopologyConstraint: &nvidiav1alpha1.SpecTopologyConstraint{TopologyProfile: "gb200", PackDomain: "zone"},
			Services: map[string]*componentSpec{
				"Frontend": {ComponentType: "frontend", Replicas: ptr.To[int32](1)},
				"Worker": {ComponentType: "worker", Replicas: ptr.To[int32](2), Multinode: &nvidiav1alpha1.MultinodeSpec{NodeCount: 4},
					TopologyConstraint: &nvidiav1alpha1.ServiceTopologyConstraint{PackDomain: "rack"}},
			},
		},
	}
	for _, change := range changes {
		change(dgd)
	}
	return dgd
}

// worker makes a change of the Worker component.
func worker(change func(*componentSpec)) func(*deployment) {
	return func(dgd *deployment) { change(dgd.Spec.Services["Worker"]) }
}

func limits(item nvidiav1alpha1.ResourceItem) func(*deployment) {
	return worker(func(s *componentSpec) { s.Resources = &nvidiav1alpha1.Resources{Limits: &item} })
}

// texts are errors as who writes v1alpha1 reads them.
func texts(errs field.ErrorList) []string { return textsIn(errs, "v1alpha1") }

func textsIn[T field.Worded](said []T, version string) []string {
	var out []string
	for _, one := range said {
		out = append(out, one.In(version))
	}
	return out
}

// at is the path of a field, or of one of every component.
func at(component string, fields ...string) *field.Path {
	path := field.Component(-1, component)
	for _, name := range fields {
		if key, ok := strings.CutPrefix(name, "["); ok {
			path = path.Key(key)
		} else {
			path = path.Child(name)
		}
	}
	return path
}

// ruleCase is a deployment that breaks one rule.
type ruleCase struct {
	change func(*deployment)
	want   []string
}

// testRules runs cases keyed "rule: case": the rule of that name must be the one that speaks, and nothing else may. Every rule needs a case.
func testRules(t *testing.T, rules []string, cases map[string]ruleCase) {
	t.Helper()
	covered := map[string]bool{}
	for name, tc := range cases {
		rule, _, _ := strings.Cut(name, ": ")
		covered[rule] = true
		t.Run(name, func(t *testing.T) {
			dgd := newGraph(tc.change)
			if diff := cmp.Diff(tc.want, texts(Graph(written(dgd)))); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.want, texts(runRule(rule, dgd))); diff != "" {
				t.Errorf("errors of the rule alone (-want +got):\n%s", diff)
			}
		})
	}
	for _, rule := range rules {
		if !covered[rule] {
			t.Errorf("no case for rule %q", rule)
		}
	}
}

// written is a deployment as a request in v1alpha1 has it; empty for none.
func written(dgd *deployment) Written {
	return Written{DynamoGraphDeployment: hub.Of(dgd), Alpha: dgd}
}

// runRule asks one rule only.
func runRule(name string, dgd *deployment) field.ErrorList {
	var errs field.ErrorList
	for _, check := range graphChecks {
		if check.name == name {
			errs = append(errs, check.run(hub.Of(dgd))...)
		}
	}
	if name == "claims" {
		errs = append(errs, claims(dgd.Spec.PVCs)...)
	}
	for _, s := range written(dgd).components() {
		for _, check := range componentChecks {
			if check.name == name {
				errs = append(errs, check.run(s)...)
			}
		}
	}
	return errs
}
