// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
	"github.com/trellis-k8s/trellis/test/testutil/golden"
	"github.com/trellis-k8s/trellis/test/testutil/hub"
)

// TestGolden shows, for each deployment below testdata/graphs, every object Trellis makes of it: groups, Services, and the first two
// pods of each service's first replica.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/graphs/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no examples: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			g := resolveFile(t, file)
			var out []string
			for _, sg := range g.ScalingGroups() {
				out = append(out, toYAML(t, sg))
			}
			for _, service := range g.KubernetesServices() {
				out = append(out, toYAML(t, service))
			}
			for _, object := range brought(g) {
				out = append(out, toYAML(t, object))
			}
			for _, pod := range firstPods(g) {
				out = append(out, toYAML(t, pod))
			}
			golden.Check(t, strings.Replace(file, "graphs", "objects", 1), strings.Join(out, "---\n"))
		})
	}
}

// TestRevisions holds the revisions of the examples. Groups keep their stored templates until their input changes (input.go), so that a change here
// restarts no pod at an upgrade; it is in what deployments are given from then on.
func TestRevisions(t *testing.T) {
	files, _ := filepath.Glob("testdata/graphs/*.yaml")
	var out strings.Builder
	for _, file := range files {
		for _, s := range resolveFile(t, file).Components {
			out.WriteString(strings.TrimSuffix(filepath.Base(file), ".yaml") + "/" + s.Name + " " + s.Revision + "\n")
		}
	}
	golden.Check(t, "testdata/revisions.golden", out.String())
}

// brought are a graph's objects other than groups, Services and pods.
func brought(g *Graph) []Object {
	out := append(slices.Clone(g.Owned()), g.Shared()...)
	for _, claim := range g.Claims().Created {
		out = append(out, claim)
	}
	return out
}

func firstPods(g *Graph) []*corev1.Pod {
	var pods []*corev1.Pod
	for _, sg := range g.ScalingGroups() {
		for index := range min(2, PodsPerReplica(sg)) {
			pods = append(pods, BuildPod(sg, 0, index))
		}
	}
	return pods
}

func resolveFile(t *testing.T, file string) *Graph {
	t.Helper()
	g, err := Resolve(hub.Of(fromYAML[nvidiav1alpha1.DynamoGraphDeployment](t, file)), Inputs{Topology: hallOne(t), Provider: specs.Gates.Name})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func hallOne(t testing.TB) *grovev1alpha1.ClusterTopology {
	t.Helper()
	return fromYAML[grovev1alpha1.ClusterTopology](t, "testdata/topology.yaml")
}

func fromYAML[T any](t testing.TB, file string) *T {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	out := new(T)
	if err := yaml.UnmarshalStrict(raw, out); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return out
}

func toYAML(t *testing.T, object any) string {
	t.Helper()
	raw, err := yaml.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}
