// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/trellis-k8s/trellis/internal/graph"
	"github.com/trellis-k8s/trellis/internal/provider/grove"
	"github.com/trellis-k8s/trellis/internal/provider/kai"
	"github.com/trellis-k8s/trellis/internal/provider/providertest"
)

// TestManifests: whatever users have today, the peers' definitions take what it becomes, whole.
func TestManifests(t *testing.T) {
	for name, dgd := range manifests(t) {
		t.Run(name, func(t *testing.T) {
			topology := providertest.Topology()
			if c := dgd.Spec.TopologyConstraint; c != nil {
				topology.Name = c.ClusterTopologyName
			}
			resolved, err := graph.Resolve(dgd, graph.Inputs{Topology: topology, Provider: "KAI"})
			if err != nil {
				t.Skip("Trellis itself refuses it: ", err)
			}
			groups := resolved.ScalingGroups()
			k := kai.Graph{Namespace: namespace, Name: dgd.Name, Queue: "q", Topology: topology.Name, Groups: groups}
			if pg := kai.RenderPodGroup(k); pg != nil {
				accepted(t, sent(t, pg, ""), metav1.DryRunAll)
			}
			for _, set := range providertest.Sets(groups, k.Prepare) {
				accepted(t, sent(t, set, ""), metav1.DryRunAll)
			}
			for shape := range groves {
				g := grove.Graph{Namespace: namespace, Name: dgd.Name, Queue: "q", Groups: groups}
				accepted(t, sent(t, grove.Render(g, schemaOf(t, shape)), shape), metav1.DryRunAll)
			}
		})
	}
}
