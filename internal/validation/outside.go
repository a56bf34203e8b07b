// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"fmt"
	"maps"
	"slices"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/constraint"
)

// nodesOutside: the pods of a service that is placed by the topology select nodes that the topology leaves out. Each such service waits for ever, and with
// it a graph that is packed as one.
func nodesOutside(dgd Written, topology *grovev1alpha1.ClusterTopology) []string {
	if topology == nil || !constraint.Stated(dgd.DynamoGraphDeployment) {
		return nil
	}
	whole := constraint.FromAnnotations(dgd.DynamoGraphDeployment).Set()
	if c := dgd.Spec.TopologyConstraint; c != nil {
		whole = c.PackDomain != "" || c.PreferredPackDomain != ""
	}
	var lines []string
	for _, key := range slices.Sorted(maps.Keys(topology.Spec.NodeSelector)) {
		taken := topology.Spec.NodeSelector[key]
		var paths []string
		for _, s := range servicesOf(dgd.DynamoGraphDeployment) {
			selected, selects := s.template().Spec.NodeSelector[key]
			if selects && selected != taken && (whole || s.multinode() || s.TopologyConstraint != nil) {
				paths = append(paths, s.path.Child("extraPodSpec", "nodeSelector").Key(key).String())
			}
		}
		lines = append(lines, byKind(paths, func(kind string) string {
			return fmt.Sprintf("%s selects nodes that the ClusterTopology leaves out by its nodeSelector %s: pack with one without it", kind, cut(key+"="+taken, 40))
		})...)
	}
	return lines
}
