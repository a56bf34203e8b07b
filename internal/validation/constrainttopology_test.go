// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	"github.com/trellis-k8s/trellis/test/testutil/hub"
)

// newTopology has the levels zone > block > rack > host.
func newTopology(changes ...func(*grovev1alpha1.ClusterTopology)) *grovev1alpha1.ClusterTopology {
	ct := &grovev1alpha1.ClusterTopology{
		ObjectMeta: metav1.ObjectMeta{Name: "gb200"},
		Spec: grovev1alpha1.ClusterTopologySpec{Levels: []grovev1alpha1.TopologyLevel{
			{Domain: "zone", Key: "topology.kubernetes.io/zone"},
			{Domain: "block", Key: "example.com/block"},
			{Domain: "rack", Key: "example.com/rack"},
			{Domain: "host", Key: "kubernetes.io/hostname"},
		}},
	}
	for _, change := range changes {
		change(ct)
	}
	return ct
}

func TestGraphTopology(t *testing.T) {
	const path = "spec.topologyConstraint.topologyProfile: "
	const notFound = path + `Not found: "gb200": ClusterTopology not found: topology-aware scheduling requires a ClusterTopology resource "gb200" but it was not found, nor a ClusterTopologyBinding of that name; ` +
		`ask a cluster admin to create it, or name one that exists (kubectl get clustertopologies)`
	tests := map[string]struct {
		change  func(*deployment)
		without bool
		want    []string
	}{
		"all levels there":     {},
		"no constraint at all": {change: func(d *deployment) { d.Spec.TopologyConstraint = nil }, without: true},
		"none":                 {without: true, want: []string{notFound}},
		"unknown domains at both levels": {
			change: func(d *deployment) {
				d.Spec.TopologyConstraint.PackDomain, d.Spec.TopologyConstraint.PreferredPackDomain = "region", "row"
				d.Spec.Services["Worker"].TopologyConstraint = &nvidiav1alpha1.ServiceTopologyConstraint{PackDomain: "chassis", PreferredPackDomain: "numa"}
			},
			want: []string{
				`spec.topologyConstraint.packDomain: Not found: "region": packDomain not found in cluster topology: domain "region" does not exist in ClusterTopology "gb200"; ` +
					`available domains: [zone, block, rack, host]`,
				`spec.topologyConstraint.preferredPackDomain: Not found: "row": preferredPackDomain not found in cluster topology: domain "row" does not exist in ` +
					`ClusterTopology "gb200"; available domains: [zone, block, rack, host]`,
				`spec.services[Worker].topologyConstraint.packDomain: Not found: "chassis": packDomain not found in cluster topology: domain "chassis" does not exist in ` +
					`ClusterTopology "gb200"; available domains: [zone, block, rack, host]`,
				`spec.services[Worker].topologyConstraint.preferredPackDomain: Not found: "numa": preferredPackDomain not found in cluster topology: domain "numa" does not ` +
					`exist in ClusterTopology "gb200"; available domains: [zone, block, rack, host]`,
			},
		},
		"service equal to the deployment": {change: func(d *deployment) { d.Spec.TopologyConstraint.PackDomain = "rack" }},
		"service broader": {
			change: func(d *deployment) {
				d.Spec.TopologyConstraint.PackDomain = "rack"
				d.Spec.Services["Worker"].TopologyConstraint.PackDomain = "zone"
			},
			want: []string{`spec.services[Worker].topologyConstraint.packDomain: Invalid value: "zone": hierarchy violation: topologyConstraint.packDomain "zone" is broader than ` +
				`spec-level "rack"; service constraints must be equal to or narrower than the deployment-level constraint; use one of [rack, host]`},
		},
		"spread in its place": {
			change: func(d *deployment) {
				d.Spec.TopologyConstraint.SpreadDomain, d.Spec.TopologyConstraint.PreferredSpreadDomain = "block", "rack"
				d.Spec.Services["Worker"].TopologyConstraint.SpreadDomain = "rack"
				d.Spec.Services["Frontend"].TopologyConstraint = &nvidiav1alpha1.ServiceTopologyConstraint{PackDomain: "block", SpreadDomain: "rack"}
			},
		},
		"unknown spread": {
			change: func(d *deployment) {
				d.Spec.TopologyConstraint.PreferredSpreadDomain = "row"
				d.Spec.Services["Worker"].TopologyConstraint.SpreadDomain = "numa"
			},
			want: []string{
				`spec.topologyConstraint.preferredSpreadDomain: Not found: "row": preferredSpreadDomain not found in cluster topology: domain "row" does not exist in ` +
					`ClusterTopology "gb200"; available domains: [zone, block, rack, host]`,
				`spec.services[Worker].topologyConstraint.spreadDomain: Not found: "numa": spreadDomain not found in cluster topology: domain "numa" does not exist in ` +
					`ClusterTopology "gb200"; available domains: [zone, block, rack, host]`,
			},
		},
		"spread over the deployment's domain": {
			change: func(d *deployment) {
				d.Spec.TopologyConstraint.SpreadDomain = "zone"
				d.Spec.Services["Worker"].TopologyConstraint.PreferredSpreadDomain = "zone"
			},
			want: []string{
				`spec.topologyConstraint.spreadDomain: Invalid value: "zone": hierarchy violation: all pods are in one domain of the spec-level packDomain "zone"; ` +
					`use a narrower level to spread replicas: one of [block, rack, host]`,
				`spec.services[Worker].topologyConstraint.preferredSpreadDomain: Invalid value: "zone": hierarchy violation: all pods are in one domain of the ` +
					`spec-level packDomain "zone"; use a narrower level to spread replicas: one of [block, rack, host]`,
			},
		},
		"spread inside a replica": {
			change: worker(func(s *componentSpec) { s.TopologyConstraint.SpreadDomain = "host" }),
			want: []string{`spec.services[Worker].topologyConstraint.spreadDomain: Invalid value: "host": hierarchy violation: it is narrower than packDomain "rack", ` +
				`so one replica may be in several of its domains; use packDomain or a broader level: one of [block, rack]`},
		},
		"spread over the domain of all replicas": {
			change: func(d *deployment) {
				d.Spec.Services["Frontend"].TopologyConstraint = &nvidiav1alpha1.ServiceTopologyConstraint{PackDomain: "rack", SpreadDomain: "rack"}
			},
			want: []string{`spec.services[Frontend].topologyConstraint.spreadDomain: Invalid value: "rack": hierarchy violation: all replicas of a single-node service ` +
				`are in one domain of packDomain "rack"; use a narrower level to spread replicas: one of [host]`},
		},
		"service broader than the deployment, and spread": {
			change: func(d *deployment) {
				d.Spec.TopologyConstraint.PackDomain = "rack"
				d.Spec.Services["Worker"].TopologyConstraint = &nvidiav1alpha1.ServiceTopologyConstraint{PackDomain: "zone", SpreadDomain: "host"}
			},
			want: []string{`spec.services[Worker].topologyConstraint.packDomain: Invalid value: "zone": hierarchy violation: topologyConstraint.packDomain "zone" is broader than ` +
				`spec-level "rack"; service constraints must be equal to or narrower than the deployment-level constraint; use one of [rack, host]`},
		},
		"service broader than what is only preferred": {
			change: func(d *deployment) {
				d.Spec.TopologyConstraint.PackDomain, d.Spec.TopologyConstraint.PreferredPackDomain = "", "rack"
				d.Spec.Services["Worker"].TopologyConstraint.PackDomain = "zone"
			},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			dgd := newGraph()
			if tc.change != nil {
				tc.change(dgd)
			}
			topology := newTopology()
			if tc.without {
				topology = nil
			}
			if diff := cmp.Diff(tc.want, texts(GraphTopology(hub.Of(dgd), topology))); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
		})
	}
}
