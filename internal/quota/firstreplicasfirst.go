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

// annotationFollows marks Workloads that Trellis keeps inactive until the Workloads of the first replicas have quota. Workloads that Kueue
// or an administrator has deactivated do not have this mark.
const annotationFollows = "trellis.dev/follows-first-replicas"

// HoldPatch deactivates a Workload until the first replicas have quota. ResumePatch activates the Workload again.
var (
	HoldPatch   = followPatch("true", false)
	ResumePatch = followPatch(nil, true)
)

func followPatch(annotation any, active bool) map[string]any {
	return map[string]any{
		"metadata": map[string]any{"annotations": map[string]any{annotationFollows: annotation}}, "spec": map[string]any{"active": active},
	}
}

// PatchOf returns a merge patch that makes a change to a Workload. If the Workload has a resourceVersion, the patch applies only to this
// version, otherwise to any version.
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

// Follows reports whether Trellis keeps a Workload inactive until the Workloads of the first replicas have quota.
func (w *Workload) Follows() bool { return w.Annotations[annotationFollows] != "" && !w.active() }

// marked reports whether a Workload has annotations with which Trellis marks the Workloads that it keeps inactive. On an active Workload,
// these marks are stale, because another client has activated the Workload. Trellis then removes the marks, so that the Workload stays
// inactive if another client deactivates it.
func (w *Workload) marked() bool {
	return w.Annotations[annotationFollows] != "" || w.Annotations[annotationNoPlace] != "" || w.Annotations[annotationAskAfter] != ""
}

// UnmarkPatch removes the marks of a Workload.
var UnmarkPatch = map[string]any{"metadata": map[string]any{
	"annotations": map[string]any{annotationFollows: nil, annotationNoPlace: nil, annotationAskAfter: nil},
}}

// hold makes a new Workload wait for the first replicas.
func (w *Workload) hold() {
	metav1.SetMetaDataAnnotation(&w.ObjectMeta, annotationFollows, "true")
	w.Spec.Active = ptr.To(false)
}

// awaited returns the Workloads that get quota before all other Workloads of their deployment: the Workloads of the first replicas, until
// all of these Workloads have quota. Without this rule, a later replica could get quota first, because Kueue admits Workloads in no
// reliable order. In a graph packed into one domain, the later replica would not be placed before the first replicas, but would take the
// quota that they need. If the base contains a first replica, the base comes first, followed by first replicas with their own Workloads.
// First replicas with quota keep it, because Kueue may have preempted the base for them. While pods of the deployment run, each replica
// waits separately, and awaited returns none.
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

// first returns the Workloads of the first minAvailable replicas of all components: the Workloads that their pods name, or that the
// successors of terminating pods will name. It omits replicas whose pods were created before the deployment had a queue.
func (o *Observation) first(a asks) map[string]bool {
	names := map[string]bool{}
	for _, sg := range o.Groups {
		if sg.DeletionTimestamp != nil {
			continue
		}
		pods := membersOf(sg, o.Pods)
		ordinals := gang.Ordinals(sg, pods, o.Record.Replicas(sg.Spec.Component))
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

// begun reports whether a pod has no scheduling gates, because it was released or was never held.
func begun(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp == nil && len(pod.Spec.SchedulingGates) == 0
}
