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
	open []*corev1.Pod
	// together are the released pods of the whole graph. Further replicas are released alongside the base gang, and would keep the graph in
	// their domain without it.
	together []*corev1.Pod
}

// findBegunBase looks for the base gang of released pods. Its name identifies the pods that it was released with, so the gated pods that
// complete it are known, also after a restart of the operator: a successor of a lost pod makes another name.
func (r *Request) findBegunBase(groups []*trellisv1alpha1.ScalingGroup, states map[string][]replicaState) {
	if r.Graph.Required == topology.NoLevel {
		return
	}
	members, keys := firstReplicas(groups, states)
	var base begunBase
	for _, member := range members {
		for _, pod := range member.open {
			base.open = append(base.open, pod)
			base.gang = cmp.Or(base.gang, pod.Annotations[render.AnnotationGang])
		}
	}
	if base.gang == "" || base.gang != name(r.Graph.Name, resultsOf(members)...) {
		return
	}
	for _, sg := range groups {
		for _, state := range states[sg.Spec.Service] {
			base.together = append(base.together, state.open...)
		}
	}
	for i, member := range members {
		if len(member.open) == 0 && len(member.closed) > 0 { // one without pods was not of the gang: its component had 0 replicas
			r.rests[keys[i]] = base
		}
	}
}

// firstReplicas of all components, which make a base gang.
func firstReplicas(groups []*trellisv1alpha1.ScalingGroup, states map[string][]replicaState) (members []replicaState, keys []Key) {
	for _, sg := range groups {
		of := states[sg.Spec.Service]
		for i := range min(max(int(render.MinAvailable(sg)), 1), len(of)) {
			members, keys = append(members, of[i]), append(keys, Key{sg.Spec.Service, of[i].ordinal})
		}
	}
	return members, keys
}

// resultsOf are replicas as they were released.
func resultsOf(members []replicaState) []placement.ReplicaResult {
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
