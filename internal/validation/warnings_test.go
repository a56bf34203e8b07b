// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/render"
)

func TestGraphWarnings(t *testing.T) {
	tests := map[string]struct {
		change     func(*deployment)
		noTopology bool
		selector   map[string]string
		notActedOn []render.Ignored
		want       []string
	}{
		"nothing to say": {},
		"deprecated fields, each once": {
			change: func(d *deployment) {
				for _, s := range d.Spec.Services {
					s.DynamoNamespace = ptr.To("llm")
				}
				d.Spec.Services["Worker"].Autoscaling = &nvidiav1alpha1.FreeObject{}
				d.Spec.Services["Worker"].PVC = &nvidiav1alpha1.FreeObject{}
				d.Spec.Services["Worker"].ServiceName = "Other"
			},
			notActedOn: []render.Ignored{{Path: at("Worker", "autoscaling")}},
			want: []string{
				"spec.services[*].dynamoNamespace is deprecated and ignored: the Dynamo namespace is <namespace>-<name> of the DynamoGraphDeployment; remove it (Frontend, Worker)",
				"spec.services[Worker].autoscaling is deprecated and ignored: set replicas instead",
				"spec.services[Worker].pvc was removed and is ignored: list the claim in spec.pvcs and mount it with volumeMounts",
				"spec.services[Worker].serviceName is ignored: the key in spec.services is the service's name",
			},
		},
		"not acted on by one provider": {
			notActedOn: []render.Ignored{
				{Path: annotationPath("nvidia.com/deployment-strategy"), Provider: "Grove"}, {Path: annotationPath("nvidia.com/volcano-queue")},
				{Path: at("A", "podTemplate", "metadata", "annotations", "[nvidia.com/deployment-strategy"), Provider: "Grove"},
				{Path: at("B", "podTemplate", "metadata", "annotations", "[nvidia.com/deployment-strategy"), Provider: "Grove"},
			},
			want: []string{
				"metadata.annotations[nvidia.com/deployment-strategy] is accepted but not acted on by the provider Grove",
				"metadata.annotations[nvidia.com/volcano-queue] is accepted but not acted on",
				"spec.services[*].annotations[nvidia.com/deployment-strategy] is accepted but not acted on by the provider Grove (A, B)",
			},
		},
		"not acted on, by kind": {
			notActedOn: []render.Ignored{
				{Path: annotationPath("kai.scheduler/topology")}, {Path: annotationPath("nvidia.com/volcano-queue")}, {Path: at("Frontend", "modelRef")},
				{Path: specPath.Child("experimental")}, {Path: at("Worker", "modelRef")}, {Path: at("Worker", "volumeMounts").Index(0)}, {Path: at("Worker", "volumeMounts").Index(1)},
			},
			want: []string{
				"metadata.annotations[*] is accepted but not acted on (kai.scheduler/topology, nvidia.com/volcano-queue)",
				"spec.services[*].modelRef is accepted but not acted on (Frontend, Worker)",
				"spec.experimental is accepted but not acted on",
				"spec.services[*].volumeMounts[*] is accepted but not acted on (Worker)",
			},
		},
		"nodes that the topology leaves out": {
			selector: map[string]string{"pool": "gpu"},
			change: func(d *deployment) {
				d.Spec.Services["Frontend"].ExtraPodSpec = &nvidiav1alpha1.ExtraPodSpec{PodSpec: &corev1.PodSpec{NodeSelector: map[string]string{"pool": "cpu"}}}
				d.Spec.Services["Worker"].ExtraPodSpec = &nvidiav1alpha1.ExtraPodSpec{PodSpec: &corev1.PodSpec{NodeSelector: map[string]string{"pool": "gpu", "x": "y"}}}
			},
			want: []string{`spec.services[Frontend].extraPodSpec.nodeSelector[pool] selects nodes that the ClusterTopology excludes by its nodeSelector pool=gpu: use a topology without it`},
		},
		"such nodes, for pods that the kube-scheduler places": {
			selector: map[string]string{"pool": "gpu"},
			change: func(d *deployment) {
				d.Spec.TopologyConstraint.PackDomain = ""
				d.Spec.Services["Frontend"].ExtraPodSpec = &nvidiav1alpha1.ExtraPodSpec{PodSpec: &corev1.PodSpec{NodeSelector: map[string]string{"pool": "cpu"}}}
			},
		},
		"preferred equal to required": {
			change: func(d *deployment) {
				d.Spec.TopologyConstraint.PreferredPackDomain = "zone"
				d.Spec.Services["Worker"].TopologyConstraint.PreferredPackDomain = "rack"
			},
			noTopology: true,
			want: []string{
				`spec.topologyConstraint.preferredPackDomain "zone" has no effect: it is not narrower than the required packDomain "zone"`,
				`spec.services[Worker].topologyConstraint.preferredPackDomain "rack" has no effect: it is not narrower than the required packDomain "rack"`,
			},
		},
		"preferred broader than required": {
			change: func(d *deployment) {
				d.Spec.TopologyConstraint.PackDomain, d.Spec.TopologyConstraint.PreferredPackDomain = "block", "zone"
				d.Spec.Services["Worker"].TopologyConstraint = &nvidiav1alpha1.ServiceTopologyConstraint{PreferredPackDomain: "zone"}
			},
			want: []string{
				`spec.topologyConstraint.preferredPackDomain "zone" has no effect: it is not narrower than the required packDomain "block"`,
				`spec.services[Worker].topologyConstraint.preferredPackDomain "zone" has no effect: it is not narrower than the required packDomain "block"`,
			},
		},
		"preferred spread as broad as the required": {
			change: func(d *deployment) {
				d.Spec.TopologyConstraint.SpreadDomain, d.Spec.TopologyConstraint.PreferredSpreadDomain = "block", "block"
				d.Spec.Services["Worker"].TopologyConstraint.SpreadDomain = "rack"
				d.Spec.Services["Worker"].TopologyConstraint.PreferredSpreadDomain = "block"
			},
			want: []string{
				`spec.topologyConstraint.preferredSpreadDomain "block" has no effect: it is not narrower than spreadDomain "block"`,
				`spec.services[Worker].topologyConstraint.preferredSpreadDomain "block" has no effect: it is not narrower than spreadDomain "rack"`,
			},
		},
		"a spread that does not suit a service": {
			change: func(d *deployment) {
				d.Spec.TopologyConstraint.SpreadDomain = "rack"
				d.Spec.Services["Worker"].TopologyConstraint.PackDomain = "block"
				d.Spec.Services["Frontend"].TopologyConstraint = &nvidiav1alpha1.ServiceTopologyConstraint{PackDomain: "rack"}
			},
			want: []string{`the spread of spec.topologyConstraint has no effect on services whose packDomain it does not suit; set spreadDomain there (Frontend, Worker)`},
		},
		"preferred narrower": {
			change: func(d *deployment) {
				d.Spec.TopologyConstraint.PreferredPackDomain = "rack"
				d.Spec.Services["Worker"].TopologyConstraint.PreferredPackDomain = "host"
			},
		},
		"multinode on one host": {
			change: worker(func(s *componentSpec) { s.TopologyConstraint.PackDomain = "host" }),
			want:   []string{"packDomain holds each replica of a multinode service on one host; use rack or block for services that span nodes (Worker)"},
		},
		"multinode on one host, inherited, by label key": {
			change: func(d *deployment) {
				d.Spec.TopologyConstraint.PackDomain = "host"
				d.Spec.Services["Worker"].TopologyConstraint = nil
			},
			noTopology: true,
			want:       []string{"packDomain holds each replica of a multinode service on one host; use rack or block for services that span nodes (Worker)"},
		},
		"single-node on one host": {
			change: func(d *deployment) {
				d.Spec.Services["Frontend"].TopologyConstraint = &nvidiav1alpha1.ServiceTopologyConstraint{PackDomain: "host"}
			},
		},
		"mount of an unlisted claim": {
			change: func(d *deployment) {
				d.Spec.PVCs = []nvidiav1alpha1.PVC{{Name: ptr.To("models")}, {}}
				d.Spec.Services["Worker"].VolumeMounts = []nvidiav1alpha1.VolumeMount{{Name: "models", MountPoint: "/m"}, {Name: "cache", MountPoint: "/c"}}
			},
			want: []string{"spec.services[*].volumeMounts name claims that spec.pvcs does not list (Worker: cache)"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			dgd, topology := newGraph(), newTopology()
			if tc.change != nil {
				tc.change(dgd)
			}
			topology.Spec.NodeSelector = tc.selector
			if tc.noTopology {
				topology = nil
			}
			if diff := cmp.Diff(tc.want, textsIn(GraphWarnings(written(dgd), topology, tc.notActedOn), "v1alpha1")); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
		})
	}
}

// A graph of 25 components with long names that uses every field there is still gets all its warnings through.
func TestGraphWarningsFit(t *testing.T) {
	dgd := newGraph()
	var notActedOn []render.Ignored
	for i := range 25 {
		name := fmt.Sprintf("%s%02d", strings.Repeat("é", 61), i)
		dgd.Spec.Services[name] = &componentSpec{DynamoNamespace: ptr.To("x"), Autoscaling: &nvidiav1alpha1.FreeObject{}, PVC: &nvidiav1alpha1.FreeObject{},
			VolumeMounts: []nvidiav1alpha1.VolumeMount{{Name: strings.Repeat("v", 500)}}}
		for i := range 30 {
			notActedOn = append(notActedOn, render.Ignored{Path: at(name, fmt.Sprintf("field%d", i))})
		}
	}
	lines := Bounded(GraphWarnings(written(dgd), nil, notActedOn), "v1alpha1")
	total := 0
	for _, l := range lines {
		if n := utf8.RuneCountInString(l); n > 256 {
			t.Errorf("a line of %d runes: %s", n, l)
		} else {
			total += n
		}
	}
	if total > 3500 {
		t.Errorf("%d runes in all", total)
	}
	if last := lines[len(lines)-1]; !strings.HasPrefix(last, "and ") || !strings.HasSuffix(last, " more warnings") {
		t.Errorf("the cut is not reported: %q", last)
	}
	if !strings.HasSuffix(lines[1], "and 24 more)") {
		t.Errorf("the services left out are not counted: %q", lines[1])
	}
}
