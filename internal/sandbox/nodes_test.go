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
)

func TestShape(t *testing.T) {
	tests := map[string]struct {
		shape Shape
		want  Shape
		err   string
	}{
		"default":               {Shape{}, Shape{2, 2, 3, 4, 8}, ""},
		"one number":            {Shape{Zones: 5}, Shape{5, 2, 3, 4, 8}, ""},
		"no GPUs":               {Shape{GPUs: -1}, Shape{2, 2, 3, 4, 0}, ""},
		"negative":              {Shape{Racks: -1}, Shape{}, "racks: -1"},
		"too many":              {Shape{Zones: 100, Blocks: 100, Racks: 100}, Shape{}, "more than 100000 nodes"},
		"too many for integers": {Shape{Zones: 1 << 40}, Shape{}, "zones"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := tc.shape.complete()
			if tc.err != "" {
				mustContain(t, err, tc.err)
				return
			}
			if err != nil || got != tc.want {
				t.Errorf("got %+v (%v), want %+v", got, err, tc.want)
			}
		})
	}
}

func TestNodes(t *testing.T) {
	tests := map[string]struct {
		shape Shape
		names []string
		gpus  string
	}{
		"one of each":  {Shape{1, 1, 1, 1, 8}, []string{"zone-0-block-0-rack-0-host-0"}, "8"},
		"hosts":        {Shape{1, 1, 1, 2, 4}, []string{"zone-0-block-0-rack-0-host-0", "zone-0-block-0-rack-0-host-1"}, "4"},
		"without GPUs": {Shape{1, 1, 1, 1, 0}, []string{"zone-0-block-0-rack-0-host-0"}, "0"},
		"depth first":  {Shape{2, 1, 2, 1, 1}, []string{"zone-0-block-0-rack-0-host-0", "zone-0-block-0-rack-1-host-0", "zone-1-block-0-rack-0-host-0", "zone-1-block-0-rack-1-host-0"}, "1"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var names []string
			for _, n := range tc.shape.Nodes() {
				names = append(names, n.Name)
				if got := n.Status.Allocatable[gpuResource]; got.String() != tc.gpus {
					t.Errorf("%s has %s GPUs, want %s", n.Name, got.String(), tc.gpus)
				}
				// The name is the path of label values, and a value says nothing about its parent.
				if path := strings.Join([]string{n.Labels[ZoneKey], n.Labels[BlockKey], n.Labels[RackKey], "host"}, "-"); !strings.HasPrefix(n.Name, path) {
					t.Errorf("%s carries the labels of %s", n.Name, path)
				}
			}
			if diff := cmp.Diff(tc.names, names); diff != "" {
				t.Errorf("names (-want +got)\n%s", diff)
			}
		})
	}
	racks := map[string]bool{}
	for _, n := range DefaultShape.Nodes() {
		racks[n.Labels[RackKey]] = true
	}
	if len(racks) != DefaultShape.Racks {
		t.Errorf("%d rack values in 12 racks, want %d: they repeat on purpose", len(racks), DefaultShape.Racks)
	}
}

func TestSimulate(t *testing.T) {
	in := corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: "worker", UID: "u", ResourceVersion: "7", Finalizers: []string{"x"},
			Labels: map[string]string{HostKey: "other-name", "a": "b", kubeletLabel: kubeletStopped},
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
		Labels: map[string]string{HostKey: "other-name", "a": "b", corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64"},
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
