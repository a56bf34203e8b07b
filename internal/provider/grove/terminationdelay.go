// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package grove

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
)

// endless is a terminationDelay that never expires in practice. Grove has no value that disables the delay.
const endless = 10 * 365 * 24 * time.Hour

// KeepGang sets an endless terminationDelay if a component gets fewer replicas than Grove's minAvailable, for example 0. Grove versions
// after v0.1.0-alpha.11 treat such a component as broken if it ever had enough replicas, and delete the pods of all components after the
// delay. When the component gets replicas again, Grove treats it as broken until these replicas are scheduled. KeepGang therefore keeps an
// endless delay that is already in the existing set, have. The delay is not part of the pod templates, so changing it restarts no pods.
func KeepGang(want, have *PodCliqueSet, g Input) {
	d := have.Spec.Template.TerminationDelay
	if d != nil && d.Duration == endless || slices.ContainsFunc(g.Groups, func(sg *trellisv1alpha1.ScalingGroup) bool {
		return sg.Spec.Replicas < want.Spec.Template.minAvailable(nameAll(g.Name, g.Groups).of(sg))
	}) {
		want.Spec.Template.TerminationDelay = &metav1.Duration{Duration: endless}
	}
}

// minAvailable returns minAvailable of the clique or scaling group with this name.
func (t *Template) minAvailable(name string) int32 {
	for i := range t.PodCliqueScalingGroups {
		if t.PodCliqueScalingGroups[i].Name == name {
			return ptr.Deref(t.PodCliqueScalingGroups[i].MinAvailable, 1)
		}
	}
	for i := range t.Cliques {
		if t.Cliques[i].Name == name {
			return ptr.Deref(t.Cliques[i].Spec.MinAvailable, 1)
		}
	}
	return 1
}
