// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"maps"
	"slices"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/constraint"
	"github.com/trellis-k8s/trellis/internal/field"
)

// nodesOutside warns about components that are placed in the topology but whose pods select only nodes outside the topology. Such a
// component waits forever. If the graph requires a common domain, the entire graph waits with it.
func nodesOutside(dgd Written, topology *grovev1alpha1.ClusterTopology) []field.Text {
	if topology == nil || !constraint.Stated(dgd.DynamoGraphDeployment) {
		return nil
	}
	whole := constraint.FromAnnotations(dgd.DynamoGraphDeployment).Set()
	if c := dgd.Spec.TopologyConstraint; c != nil {
		whole = c.PackDomain+c.PreferredPackDomain+c.SpreadDomain+c.PreferredSpreadDomain != ""
	}
	var lines []field.Text
	for _, key := range slices.Sorted(maps.Keys(topology.Spec.NodeSelector)) {
		taken := topology.Spec.NodeSelector[key]
		var paths []*field.Path
		for _, s := range componentsOf(dgd.DynamoGraphDeployment) {
			selected, selects := s.template().Spec.NodeSelector[key]
			if selects && selected != taken && (whole || s.multinode() || s.TopologyConstraint != nil) {
				paths = append(paths, s.podPath("nodeSelector").Key(key))
			}
		}
		lines = append(lines, byKind(paths, func(kind *field.Path) field.Text {
			return field.Say("%s selects nodes that the %s excludes by its nodeSelector %s: use a topology without it", kind, topology.Source(),
				cut(key+"="+taken, 40))
		})...)
	}
	return lines
}
