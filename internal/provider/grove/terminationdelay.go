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

// endless is a terminationDelay that never passes; Grove has no value for none.
const endless = 10 * 365 * 24 * time.Hour

// KeepGang sets an endless terminationDelay if a component gets fewer replicas than Grove's minAvailable, for instance none. Grove after
// v0.1.0-alpha.11 counts such a component as broken if it ever had enough, and deletes the pods of all components after the delay. When
// it has replicas again, it counts as broken until they are scheduled, so the endless delay in have is kept from then on. The delay is
// not part of the pods' templates: a change restarts nothing.
func KeepGang(want, have *PodCliqueSet, g Input) {
	d := have.Spec.Template.TerminationDelay
	if d != nil && d.Duration == endless || slices.ContainsFunc(g.Groups, func(sg *trellisv1alpha1.ScalingGroup) bool {
		return sg.Spec.Replicas < want.Spec.Template.minAvailable(nameAll(g.Name, g.Groups).of(sg))
	}) {
		want.Spec.Template.TerminationDelay = &metav1.Duration{Duration: endless}
	}
}

// minAvailable returns minAvailable of the clique or scaling group with a name.
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
