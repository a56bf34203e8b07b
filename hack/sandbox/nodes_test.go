// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/trellis-k8s/trellis/test/testutil/simulated"
)

func TestSimulate(t *testing.T) {
	in := corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: "worker", UID: "u", ResourceVersion: "7", Finalizers: []string{"x"},
			Labels: map[string]string{simulated.HostKey: "other-name", "a": "b", kubeletLabel: kubeletStopped},
		},
		Spec: corev1.NodeSpec{
			Unschedulable: true, PodCIDR: "10.0.0.0/24",
			Taints: []corev1.Taint{{Key: "gpu", Effect: "NoSchedule"}, {Key: corev1.TaintNodeNotReady, Effect: "NoExecute"}},
		},
		Status: corev1.NodeStatus{
			Capacity:   corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4")},
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionFalse}},
		},
	}
	got := simulate(in, 300, metav1.Now())
	want := metav1.ObjectMeta{
		Name: "worker", Annotations: map[string]string{kwokAnnotation: kwokFake},
		Labels: map[string]string{simulated.HostKey: "other-name", "a": "b", corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64"},
	}
	if diff := cmp.Diff(want, got.ObjectMeta); diff != "" {
		t.Errorf("metadata (-want +got)\n%s", diff)
	}
	wantSpec := corev1.NodeSpec{Unschedulable: true, Taints: []corev1.Taint{{Key: "gpu", Effect: "NoSchedule"}}}
	if diff := cmp.Diff(wantSpec, got.Spec); diff != "" {
		t.Errorf("spec (-want +got)\n%s", diff)
	}
	if blocker := notUsable(&got); blocker != "" {
		t.Errorf("a fresh node %s", blocker)
	}
	if diff := cmp.Diff(got.Status.Capacity, got.Status.Allocatable); diff != "" {
		t.Errorf("allocatable is missing (-capacity +allocatable)\n%s", diff)
	}
	if got.Status.Addresses[0].Address != "172.16.1.45" {
		t.Errorf("address %s of node 300", got.Status.Addresses[0].Address)
	}
}

func TestReadNodes(t *testing.T) {
	const node = `{"kind":"Node","metadata":{"name":"NAME"},"status":{"allocatable":{"cpu":"4"}}}`
	named := func(name string) string { return strings.ReplaceAll(node, "NAME", name) }
	tests := map[string]struct {
		content string
		want    []string
		err     string
	}{
		"one JSON object":    {named("a"), []string{"a"}, ""},
		"YAML documents":     {"kind: Node\nmetadata: {name: a}\nstatus: {capacity: {cpu: 4}}\n---\n---\n" + named("b"), []string{"a", "b"}, ""},
		"a list":             {`{"kind":"List","items":[` + named("a") + "," + named("b") + "]}", []string{"a", "b"}, ""},
		"nothing":            {"", nil, "holds no Node"},
		"another kind":       {"kind: Pod\nmetadata: {name: a}", nil, "found a Pod"},
		"another in a list":  {`{"kind":"List","items":[{"kind":"Pod"}]}`, nil, "found a Pod"},
		"the same name":      {named("a") + "\n---\n" + named("a"), nil, "node a appears twice"},
		"no name":            {named(""), nil, "node 1 has no name"},
		"no capacity":        {"kind: Node\nmetadata: {name: a}", nil, "neither status.allocatable"},
		"not YAML":           {"{{{", nil, "reading nodes"},
		"a malformed number": {"kind: Node\nmetadata: {name: a}\nstatus: {capacity: {cpu: abc}}", nil, "reading nodes"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "nodes")
			if err := os.WriteFile(file, []byte(tc.content), 0o600); err != nil {
				t.Fatal(err)
			}
			nodes, err := readNodes(file)
			if tc.err != "" {
				mustContain(t, err, tc.err, file)
				return
			}
			var names []string
			for _, n := range nodes {
				names = append(names, n.Name)
			}
			if diff := cmp.Diff(tc.want, names); diff != "" || err != nil {
				t.Errorf("error %v, names (-want +got)\n%s", err, diff)
			}
		})
	}
}
