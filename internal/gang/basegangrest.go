// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/placement"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// begunBase is a base gang of which some replicas are released and others are gated still.
type begunBase struct {
	gang string
	// replicas identifies the replicas of the gang; "" for one of a single replica.
	replicas string
	// inPlace: it was created in place, and named before its pods existed.
	inPlace bool
	open    []*corev1.Pod
}

// findBegunBase looks for the base gang of released pods. Its name identifies the pods that it was released with, so the gated pods that
// complete it are known, also after a restart of the operator: a successor of a lost pod makes another name. A gang that was created in
// place was named before its pods existed; see [isMissing].
func (r *Request) findBegunBase(groups []*trellisv1alpha1.ScalingGroup, states map[string][]replicaState) {
	if r.Graph.Required == topology.NoLevel {
		return
	}
	first := firstReplicas(groups, states)
	base := releasedOf(first)
	if base.gang == "" {
		return
	}
	for _, member := range r.membersOf(base, first) {
		if len(member.open) == 0 && (len(member.closed) > 0 || base.inPlace) { // else its component had 0 replicas when the gang was released
			r.rests[member.key] = base
		}
	}
}

// membersOf are the first replicas that make a base gang of which some are released; nil where that is another one. What is not released of
// a component that has begun, or that was added since, is not of the gang, and neither is what was released with another gang.
func (r *Request) membersOf(base begunBase, first []firstReplica) []firstReplica {
	of := slices.DeleteFunc(slices.Clone(first), func(member firstReplica) bool {
		if len(member.open) == 0 {
			return member.of.Status.Begun || member.isLater(first)
		}
		return !slices.ContainsFunc(member.open, func(pod *corev1.Pod) bool {
			of := pod.Annotations[render.AnnotationGang]
			return of == "" || of == base.gang
		})
	})
	switch {
	case base.inPlace && r.Graph.Anchor != nil && isMissing(base, of):
		return of
	case base.inPlace:
		return nil
	case base.gang == name(r.Graph.Name, resultsOf(first)...): // its components may have run before the gang
		return first
	case base.gang == name(r.Graph.Name, resultsOf(of)...):
		return of
	}
	return nil
}

// releasedOf returns what is released of the base gang of first replicas.
func releasedOf(first []firstReplica) (base begunBase) {
	for _, member := range first {
		for _, pod := range member.open {
			if pod.Annotations[render.AnnotationGangReplicas] == "" {
				continue
			}
			base.gang = cmp.Or(base.gang, pod.Annotations[render.AnnotationGang])
			base.replicas = cmp.Or(base.replicas, pod.Annotations[render.AnnotationGangReplicas])
			base.inPlace = base.inPlace || pod.Annotations[render.AnnotationCreation] != ""
		}
	}
	for _, member := range first {
		for _, pod := range member.open {
			of := pod.Annotations[render.AnnotationGang]
			if base.gang = cmp.Or(base.gang, of); of == "" || of == base.gang {
				base.open = append(base.open, pod)
			}
		}
	}
	return base
}

// isMissing reports whether the first replicas are those of a gang that was created in place, and what is not released of them was never
// placed. A group remembers that its first replicas were bound: what is lost later, scaled in, or recreated under another ordinal is not of
// the gang, and without it the others are not the replicas of the gang.
func isMissing(base begunBase, first []firstReplica) bool {
	keys := make([]Key, 0, len(first))
	for i := range first {
		member := &first[i]
		if member.beingCreated() {
			return false
		}
		for _, pod := range member.open {
			if of := pod.Annotations[render.AnnotationGang]; of != "" && of != base.gang {
				return false // a successor
			}
		}
		keys = append(keys, member.key)
	}
	return Base{Replicas: keys}.Identity() == base.replicas
}

// firstReplica is one of those that make a base gang.
type firstReplica struct {
	replicaState
	key Key
	of  *trellisv1alpha1.ScalingGroup
}

// isLater reports whether its group was created after a pod of the gang: nothing of a base gang is created before all groups exist.
func (f *firstReplica) isLater(first []firstReplica) bool {
	return slices.ContainsFunc(first, func(other firstReplica) bool {
		return slices.ContainsFunc(other.open, func(pod *corev1.Pod) bool { return f.of.CreationTimestamp.After(pod.CreationTimestamp.Time) })
	})
}

// firstReplicas of all components, which make a base gang.
func firstReplicas(groups []*trellisv1alpha1.ScalingGroup, states map[string][]replicaState) (first []firstReplica) {
	for _, sg := range groups {
		of := states[sg.Spec.Service]
		for i := range min(max(int(render.MinAvailable(sg)), 1), len(of)) {
			first = append(first, firstReplica{of[i], Key{Component: sg.Spec.Service, Ordinal: of[i].ordinal}, sg})
		}
	}
	return first
}

// resultsOf are replicas as they were released.
func resultsOf(members []firstReplica) []placement.ReplicaResult {
	out := make([]placement.ReplicaResult, len(members))
	for i, member := range members {
		pods := slices.Concat(member.open, member.closed)
		slices.SortFunc(pods, func(a, b *corev1.Pod) int { return cmp.Compare(a.Name, b.Name) })
		for _, pod := range pods {
			out[i].Pods = append(out[i].Pods, placement.PodResult{ID: topology.PodID(pod)})
		}
	}
	return out
}
