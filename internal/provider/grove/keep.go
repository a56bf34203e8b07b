// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package grove

import (
	"github.com/trellis-k8s/trellis/internal/provider/kai"
	"github.com/trellis-k8s/trellis/internal/render"
)

// KeepPods takes the pods of each clique of want from have where both are of the same revision: Grove replaces pods whose template differs
// in anything, and another version of this program may write the same revision in another way. How many replicas a component has at least
// is taken from have, too: Grove refuses another number.
func KeepPods(want, have *PodCliqueSet) {
	keepMinAvailable(want, have)
	stored := map[string]*Clique{}
	for i := range have.Spec.Template.Cliques {
		stored[have.Spec.Template.Cliques[i].Name] = &have.Spec.Template.Cliques[i]
	}
	for i := range want.Spec.Template.Cliques {
		clique := &want.Spec.Template.Cliques[i]
		s := stored[clique.Name]
		if s != nil && clique.Labels[render.LabelRole] == render.RoleMain {
			clique.Spec.MinAvailable = s.Spec.MinAvailable
		}
		if s != nil && samePods(clique, s) {
			clique.Labels, clique.Annotations, clique.Spec.PodSpec = s.Labels, s.Annotations, s.Spec.PodSpec
		}
	}
}

// keepMinAvailable keeps that of the components whose replicas are several cliques.
func keepMinAvailable(want, have *PodCliqueSet) {
	for i := range want.Spec.Template.PodCliqueScalingGroups {
		group := &want.Spec.Template.PodCliqueScalingGroups[i]
		for j := range have.Spec.Template.PodCliqueScalingGroups {
			if s := &have.Spec.Template.PodCliqueScalingGroups[j]; s.Name == group.Name {
				group.MinAvailable = s.MinAvailable
			}
		}
	}
}

// samePods compares all that a clique's pods depend on and a user or administrator can change.
func samePods(a, b *Clique) bool {
	return a.Labels[render.LabelRevision] == b.Labels[render.LabelRevision] &&
		a.Labels[kai.LabelQueue] == b.Labels[kai.LabelQueue] &&
		a.Annotations[render.AnnotationRestart] == b.Annotations[render.AnnotationRestart] &&
		a.Spec.PodSpec.SchedulerName == b.Spec.PodSpec.SchedulerName
}
