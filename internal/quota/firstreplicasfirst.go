// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"encoding/json"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/trellis-k8s/trellis/internal/gang"
)

// annotationFollows is on Workloads that Trellis keeps inactive until those of the first replicas have quota. One that Kueue, or an
// administrator, has deactivated does not have it.
const annotationFollows = "trellis.dev/follows-first-replicas"

// HoldPatch and ResumePatch change a Workload to one that follows the first replicas, and back.
var (
	HoldPatch   = followPatch("true", false)
	ResumePatch = followPatch(nil, true)
)

func followPatch(annotation any, active bool) map[string]any {
	return map[string]any{
		"metadata": map[string]any{"annotations": map[string]any{annotationFollows: annotation}}, "spec": map[string]any{"active": active},
	}
}

// PatchOf is a merge patch with a change of a Workload, of the version that it names, or of any.
func PatchOf(w *Workload, change map[string]any) ([]byte, error) {
	metadata := map[string]any{"uid": w.UID}
	if w.ResourceVersion != "" {
		metadata["resourceVersion"] = w.ResourceVersion
	}
	if more, is := change["metadata"].(map[string]any); is {
		metadata["annotations"] = more["annotations"]
	}
	patch := map[string]any{"metadata": metadata}
	if spec, is := change["spec"]; is {
		patch["spec"] = spec
	}
	return json.Marshal(patch)
}

// Follows reports whether a Workload gets no quota before those of the first replicas have it.
func (w *Workload) Follows() bool { return w.Annotations[annotationFollows] != "" && !w.active() }

// marked reports whether Trellis once had a Workload ask for no quota, and has not activated it since. Where the Workload is active,
// another client has done that: without the marks it stays inactive when another client deactivates it.
func (w *Workload) marked() bool {
	return w.Annotations[annotationFollows] != "" || w.Annotations[annotationNoPlace] != "" || w.Annotations[annotationAskAfter] != ""
}

// UnmarkPatch removes the marks of a Workload.
var UnmarkPatch = map[string]any{"metadata": map[string]any{
	"annotations": map[string]any{annotationFollows: nil, annotationNoPlace: nil, annotationAskAfter: nil},
}}

// hold has a new Workload follow the first replicas.
func (w *Workload) hold() {
	metav1.SetMetaDataAnnotation(&w.ObjectMeta, annotationFollows, "true")
	w.Spec.Active = ptr.To(false)
}

// awaited are the Workloads that get quota before all others of their deployment: those of the first replicas, while one of them has none.
// Kueue admits Workloads in no order that Trellis could rely on. In a graph that is placed in one domain, a replica that has quota while
// the first ones have none is not placed, and keeps from them what they need. The base comes first, where a first replica is in it, then
// first replicas that have a Workload of their own. Those that have quota already keep it: Kueue may have preempted the base for them.
// While pods of the deployment run, each replica waits alone, and the result is empty.
func (o *Observation) awaited(a asks) map[string]bool {
	if o.Queue() == "" || slices.ContainsFunc(o.Pods, begun) {
		return nil
	}
	first := o.first(a)
	have := maps.Clone(first)
	maps.DeleteFunc(have, func(name string, _ bool) bool { return !a.hasQuota(name) })
	switch {
	case len(have) == len(first):
		return nil
	case first[a.base.Name] && !have[a.base.Name]:
		have[a.base.Name] = true
		return have
	}
	return first
}

func (a *asks) hasQuota(name string) bool {
	w := a.workloads[name]
	return w != nil && w.holdsQuota()
}

// first are the Workloads of the first minAvailable replicas of all components: those that their pods name, or that the
// successors of pods that terminate will name. It omits replicas whose pods are older than the queue of their deployment.
func (o *Observation) first(a asks) map[string]bool {
	names := map[string]bool{}
	for _, sg := range o.Groups {
		if sg.DeletionTimestamp != nil {
			continue
		}
		pods := membersOf(sg, o.Pods)
		ordinals := gang.Ordinals(sg, pods, o.Record.Replicas(sg.Spec.Service))
		slices.Sort(ordinals)
		join, unqueued := joinAs(sg, a.roles[sg], a.base, remaining(pods), o.Workloads), unqueued(pods)
		for _, ordinal := range ordinals[:min(len(ordinals), int(inBase(sg)))] {
			if !unqueued[int32(ordinal)] {
				names[join.workloadFor(int32(ordinal))] = true
			}
		}
	}
	return names
}

// begun reports whether a pod was released, or never held.
func begun(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp == nil && len(pod.Spec.SchedulingGates) == 0
}
