// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package grove

import (
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/render"
)

// Grove replaces pods when the labels, annotations or pod spec of their clique change. An update and a restart change at least one of
// these. Grove processes a changed set in this order, which the status shows:
//
//	a new generation     counts are still of the former template
//	updateProgress       is set, without updateEndedAt
//	observedGeneration   is set to the new generation; from now on, counts are of the new template
//	updateEndedAt        is set; every pod has the new template

// Current reports whether Grove's counts are for the wanted template of a component: the set has the template, and
// Grove has observed the set.
func Current(g Input, sg *trellisv1alpha1.ScalingGroup, pcs *PodCliqueSet) bool {
	n := nameAll(g.Name, g.Groups)
	cliques := 0
	for i := range pcs.Spec.Template.Cliques {
		c := &pcs.Spec.Template.Cliques[i]
		if c.Name != n.of(sg) && c.Name != n.of(sg)+leaderSuffix && c.Name != n.of(sg)+workerSuffix {
			continue
		}
		if c.Labels[render.LabelRevision] != render.LabelValue(sg.Spec.Revision) || sg.Spec.Restart != nil &&
			c.Annotations[render.AnnotationRestart] != sg.Spec.Restart.ID {
			return false
		}
		cliques++
	}
	return cliques == len(sg.Spec.Roles) && observed(pcs.Status.ObservedGeneration, pcs.Generation)
}

// Updated reports whether no pod of an earlier template is left in the set.
func Updated(pcs *PodCliqueSet) bool {
	for _, p := range []*UpdateProgress{pcs.Status.UpdateProgress, pcs.Status.RollingUpdateProgress} {
		if p != nil && p.UpdateEndedAt == nil {
			return false
		}
	}
	return true
}
