// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/test/testutil/hub"
)

// distinctWorker asks for hosts of their own for the pods of Worker.
func distinctWorker(value string) func(*deployment) {
	return worker(func(s *componentSpec) { s.Annotations = map[string]string{render.AnnotationDistinctHosts: value} })
}

// onHostNetwork has Worker run a known framework on the network of its hosts.
func onHostNetwork(command ...string) func(*deployment) {
	return worker(func(s *componentSpec) {
		s.ExtraPodSpec = &nvidiav1alpha1.ExtraPodSpec{
			PodSpec: &corev1.PodSpec{HostNetwork: true}, MainContainer: &corev1.Container{Image: "image", Command: command},
		}
	})
}

func TestDistinctHosts(t *testing.T) {
	const both = `keeps each replica on one host, but the annotation trellis.dev/distinct-hosts keeps its pods on different hosts; ` +
		`use a broader domain or remove the annotation`
	const notBool = `trellis.dev/distinct-hosts]: Unsupported value: "yes": must be "true" or "false"`
	byKey := func(d *deployment) { d.Spec.Services["Worker"].TopologyConstraint.PackDomain = "node" }
	tests := map[string]struct {
		changes []func(*deployment)
		want    []string
	}{
		"in a rack": {changes: []func(*deployment){distinctWorker("true")}},
		"on one host": {
			changes: []func(*deployment){distinctWorker("true"), worker(func(s *componentSpec) { s.TopologyConstraint.PackDomain = "host" })},
			want:    []string{`spec.services[Worker].topologyConstraint.packDomain: Invalid value: "host": ` + both},
		},
		"on one host, by its label": {
			changes: []func(*deployment){distinctWorker("true"), byKey},
			want:    []string{`spec.services[Worker].topologyConstraint.packDomain: Invalid value: "node": ` + both},
		},
		"on one host, of the deployment": {
			changes: []func(*deployment){distinctWorker("true"), func(d *deployment) {
				d.Spec.TopologyConstraint.PackDomain = "host"
				d.Spec.Services["Worker"].TopologyConstraint = nil
			}},
			want: []string{`spec.topologyConstraint.packDomain: Invalid value: "host": ` + both},
		},
		"on one host, without asking for others": {
			changes: []func(*deployment){distinctWorker("false"), worker(func(s *componentSpec) { s.TopologyConstraint.PackDomain = "host" })},
		},
		"on one host, one pod": {changes: []func(*deployment){func(d *deployment) {
			d.Annotations[render.AnnotationDistinctHosts] = "true"
			d.Spec.Services["Frontend"].TopologyConstraint = &nvidiav1alpha1.ServiceTopologyConstraint{PackDomain: "host"}
		}}},
		"no value": {
			changes: []func(*deployment){distinctWorker("yes"), func(d *deployment) {
				d.Annotations[render.AnnotationDistinctHosts] = "yes"
				d.Spec.Annotations = map[string]string{render.AnnotationDistinctHosts: "yes"}
			}},
			want: []string{
				"metadata.annotations[" + notBool, "spec.annotations[" + notBool, "spec.services[Worker].annotations[" + notBool,
			},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			dgd, topology := newGraph(test.changes...), newTopology()
			if name == "on one host, by its label" {
				topology.Spec.Levels[3].Domain = "node"
			}
			got := append(texts(Graph(written(dgd))), texts(GraphTopology(hub.Of(dgd), topology))...)
			seen := map[string]bool{}
			var once []string
			for _, text := range got {
				if !seen[text] {
					seen[text] = true
					once = append(once, text)
				}
			}
			if diff := cmp.Diff(test.want, once); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestSharedHostNetwork(t *testing.T) {
	const warning = `pods of one replica may share a host, where they use the same ports because of hostNetwork; ` +
		`set the annotation trellis.dev/distinct-hosts: "true" on services (Worker)`
	tests := map[string]struct {
		changes []func(*deployment)
		want    []string
	}{
		"a known launcher":           {changes: []func(*deployment){onHostNetwork("python3", "-m", "dynamo.sglang")}, want: []string{warning}},
		"another program":            {changes: []func(*deployment){onHostNetwork("serve")}},
		"on hosts of their own":      {changes: []func(*deployment){onHostNetwork("python3", "-m", "dynamo.sglang"), distinctWorker("true")}},
		"by the deployment's answer": {changes: []func(*deployment){onHostNetwork("python3", "-m", "dynamo.sglang"), deploymentWide}},
		"the component's goes first": {
			changes: []func(*deployment){onHostNetwork("python3", "-m", "dynamo.sglang"), deploymentWide, distinctWorker("false")},
			want:    []string{warning},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, textsIn(GraphWarnings(written(newGraph(test.changes...)), newTopology(), nil), "v1alpha1")); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func deploymentWide(d *deployment) { d.Annotations[render.AnnotationDistinctHosts] = "true" }
