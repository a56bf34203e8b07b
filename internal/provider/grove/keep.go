// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package grove

import (
	"github.com/trellis-k8s/trellis/internal/provider/kai"
	"github.com/trellis-k8s/trellis/internal/render"
)

// KeepPods copies the pod template of each clique from have to want if both cliques have the same revision. Grove replaces pods for any
// difference in their template, and another version of the operator may render the same revision differently. KeepPods also copies
// minAvailable, which is immutable in Grove.
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

// keepMinAvailable copies minAvailable of the scaling groups from have to want.
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

// samePods compares all inputs of a clique's pods that a user or administrator can change; true if they are equal.
func samePods(a, b *Clique) bool {
	return a.Labels[render.LabelRevision] == b.Labels[render.LabelRevision] &&
		a.Labels[kai.LabelQueue] == b.Labels[kai.LabelQueue] &&
		a.Annotations[render.AnnotationRestart] == b.Annotations[render.AnnotationRestart] &&
		a.Spec.PodSpec.SchedulerName == b.Spec.PodSpec.SchedulerName
}
