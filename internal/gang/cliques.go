// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/nvlink"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// Claimed lists the NVLink cliques of the pods whose claims are created from one claim template. This package does not know whether a
// template that Trellis did not create belongs to a ComputeDomain.
type Claimed struct {
	Template string
	Cliques  []nvlink.Clique
	// Own: the template belongs to a ComputeDomain that Trellis creates.
	Own bool
}

// CliquesOf lists the NVLink cliques of a graph's placed pods, by claim template. It omits a template if none of its pods is on a node that
// belongs to a clique.
func CliquesOf(c *topology.Cluster, o Observation) []Claimed {
	if !slices.ContainsFunc(o.Groups, claimsByTemplate) {
		return nil
	}
	seats, labelled, own := map[string][]nvlink.Seat{}, map[string]bool{}, map[string]bool{}
	for _, pod := range o.Pods {
		sg := groupOf(o.Groups, pod)
		if sg == nil || Leaving(pod) {
			continue
		}
		ordinal, _, _ := render.ReplicaOf(pod)
		for _, template := range render.ChannelsOf(&pod.Spec) {
			own[template] = true
		}
		for _, node := range NodesOf(c, topology.PodID(pod)) {
			clique := c.NodeLabels(node)[nvlink.CliqueLabel]
			for _, template := range templatesOf(&pod.Spec) {
				seats[template] = append(seats[template], nvlink.Seat{Replica: fmt.Sprintf("%s-%d", sg.Spec.Component, ordinal), Clique: clique})
				labelled[template] = labelled[template] || clique != ""
			}
		}
	}
	var out []Claimed
	for _, template := range slices.Sorted(maps.Keys(seats)) {
		if labelled[template] {
			out = append(out, Claimed{Template: template, Cliques: nvlink.CliquesOf(seats[template]), Own: own[template]})
		}
	}
	return out
}

func claimsByTemplate(sg *trellisv1alpha1.ScalingGroup) bool {
	return slices.ContainsFunc(sg.Spec.Roles, func(r trellisv1alpha1.Role) bool { return len(templatesOf(&r.Template.Spec)) > 0 })
}

func templatesOf(spec *corev1.PodSpec) (names []string) {
	for _, claim := range spec.ResourceClaims {
		if name := claim.ResourceClaimTemplateName; name != nil && *name != "" {
			names = append(names, *name)
		}
	}
	return names
}
