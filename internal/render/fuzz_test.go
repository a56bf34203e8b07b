// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"encoding/json"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
)

// FuzzPod reads labels and annotations of a pod that anybody with rights on pods may have written.
func FuzzPod(f *testing.F) {
	f.Add("0", "0", `{"rack":"example.com/rack"}`, "example.com/rack")
	f.Add("-1", "99999999999", `{"":null}`, "")
	f.Add("+1", "1e3", `[]`, "a/b/c")
	f.Add("٣", " 1", `{"a":{"b":1}}`, "\x00")
	f.Fuzz(func(t *testing.T, ordinal, index, levels, key string) {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Labels:          map[string]string{LabelReplica: ordinal, LabelPodIndex: index, LabelSetIndex: index, LabelScalingGroup: levels, LabelGroupUID: key},
			Annotations:     map[string]string{AnnotationLevels: levels, AnnotationTopologyLabelKey: key, AnnotationTopologyName: key},
			OwnerReferences: []metav1.OwnerReference{{Kind: "StatefulSet", Controller: new(bool)}},
		}}
		*pod.OwnerReferences[0].Controller = true
		if o, i, ok := ReplicaOf(pod); ok && (o < 0 || i < 0) {
			t.Fatalf("replica %d, pod %d", o, i)
		}
		if o, ok := OrdinalOf(pod); ok && o < 0 {
			t.Fatalf("replica %d", o)
		}
		if name, uid, ok := GroupOf(pod); ok && (name == "" || uid == "") {
			t.Fatalf("group %q %q", name, uid)
		}
		pins := map[string]string{"example.com/rack": "r1"}
		for label, value := range TopologyLabels(pod, pins) {
			if value != "r1" || !strings.HasPrefix(label, topologyLabel("")) {
				t.Fatalf("label %q=%q", label, value)
			}
		}
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: pins}}
		for label, value := range NodeLabels(pod, node, nil) {
			if node.Labels[label] != value {
				t.Fatalf("label %q=%q is not of the node", label, value)
			}
		}
		ReplicaSize(&trellisv1alpha1.ScalingGroup{}, pod)
	})
}

// FuzzNames makes labels and names of objects from any texts.
func FuzzNames(f *testing.F) {
	for _, seed := range []string{"", "g", "A.b_C", "-", "é", "\x00", strings.Repeat("a", 300), strings.Repeat("ü", 40), "a..b", "1"} {
		f.Add(seed, seed)
	}
	f.Fuzz(func(t *testing.T, deployment, component string) {
		if value := LabelValue(component); len(validation.IsValidLabelValue(value)) > 0 {
			t.Fatalf("%q becomes the label %q", component, value)
		}
		if len(validation.IsDNS1123Subdomain(deployment)) > 0 || len(deployment) > 200 {
			return // the API server takes no such name
		}
		dgd := &nvidiav1beta1.DynamoGraphDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: deployment}}
		dgd.Spec.Components = []nvidiav1beta1.ComponentSpec{{Name: component, Type: "worker"}}
		g, err := Resolve(dgd, Inputs{Provider: specs.Gates.Name})
		if err != nil {
			return // said in the status
		}
		for _, s := range g.Components {
			if problems := validation.IsDNS1123Label(s.ServiceName); len(problems) > 0 {
				t.Fatalf("%q of %q: Service %q: %v", component, deployment, s.ServiceName, problems)
			}
		}
		for _, sg := range g.ScalingGroups() {
			pod := BuildPod(sg, 0, 0)
			if problems := validation.IsDNS1123Subdomain(pod.Name); len(problems) > 0 {
				t.Fatalf("%q of %q: pod %q: %v", component, deployment, pod.Name, problems)
			}
			for key, value := range pod.Labels {
				if len(validation.IsValidLabelValue(value)) > 0 {
					t.Fatalf("%q of %q: label %s=%q", component, deployment, key, value)
				}
			}
		}
	})
}

// FuzzOverride reads any JSON as what a deployment lays over Grove's constraints: it is understood and an object, or there is a reason.
func FuzzOverride(f *testing.F) {
	for _, seed := range []string{
		`{"spec":{"template":{"topologyConstraint":{"packDomain":"rack"}}}}`, `{"topologyConstraint":{"pack":{"required":"host"}}}`, `{"spec":null}`, `[]`, `{"topologyConstraint":{"spread":1}}`, "", "null",
	} {
		f.Add([]byte(seed), "grove.io/v1alpha1", "PodCliqueSet")
		f.Add([]byte(seed), "grove.io/v1alpha1", "")
	}
	f.Fuzz(func(t *testing.T, value []byte, version, target string) {
		o := &nvidiav1beta1.ProviderOverride{APIVersion: version, Target: target, Value: nvidiav1beta1.FreeObject{RawExtension: runtime.RawExtension{Raw: value}}}
		dgd := &nvidiav1beta1.DynamoGraphDeployment{}
		dgd.Spec.ProviderOverride = o
		dgd.Spec.Components = []nvidiav1beta1.ComponentSpec{{
			Name: "A", ProviderOverride: o, Multinode: &nvidiav1beta1.MultinodeSpec{NodeCount: 2},
			Roles: []nvidiav1beta1.ComponentRole{{Name: nvidiav1beta1.RoleLeader, ProviderOverride: o}},
		}}
		overrides, problems := GroveOverrides(dgd), OverrideProblems(dgd)
		understood := []json.RawMessage{overrides.Set, overrides.Components["A"].Unit, overrides.Components["A"].Leader}
		for _, part := range understood {
			if fields := map[string]any{}; part != nil && json.Unmarshal(part, &fields) != nil {
				t.Fatalf("%q is taken as %q", value, part)
			}
		}
		taken := 0
		for _, part := range understood {
			if part != nil {
				taken++
			}
		}
		if taken+len(problems) < len(understood) {
			t.Fatalf("%q: %d are taken, %v", value, taken, problems)
		}
		for _, p := range problems {
			if p.Path == nil || p.Text == "" {
				t.Fatalf("%q: %+v", value, p)
			}
		}
	})
}
