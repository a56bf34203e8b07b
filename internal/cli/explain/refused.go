// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
)

// refusedCreates explains, with the operator's message, why pods of replicas cannot be created: a quota or an admission plugin refuses
// them. No plan shows this. For a quota, the message also names the gangs of the namespace that wait before these replicas.
func (s *Subject) refusedCreates(replicas []Replica) (list []Cause) {
	for _, sg := range s.groups() {
		c := meta.FindStatusCondition(sg.Status.Conditions, trellisv1alpha1.ConditionPodsInSync)
		if c == nil || c.Status != metav1.ConditionFalse || c.Reason != trellisv1alpha1.ReasonChangeRefused {
			continue
		}
		w := Cause{Reason: nvidiav1beta1.ReasonCreationRefused, Message: c.Message}
		for _, r := range replicas {
			if r.Component == sg.Spec.Component && r.State == StateCreating {
				w.add(r.Component, r.Replica)
			}
		}
		if len(w.Who) > 0 {
			list = append(list, w)
		}
	}
	return list
}

// refuses reports whether the report already explains why pods of a replica cannot be created.
func (r *Explanation) refuses(replica *Replica) bool {
	return slices.ContainsFunc(r.Waiting, func(w Cause) bool {
		return w.Reason == nvidiav1beta1.ReasonCreationRefused && slices.ContainsFunc(w.Who, func(g Gangs) bool {
			return g.Component == replica.Component && slices.Contains(g.Replicas, replica.Replica)
		})
	})
}

// givesReason reports whether the reasons for waiting already contain a message.
func (r *Explanation) givesReason(message string) bool {
	return slices.ContainsFunc(r.Waiting, func(w Cause) bool { return w.Message == message })
}
