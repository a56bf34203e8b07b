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
	"github.com/trellis-k8s/trellis/internal/render"
)

// annotationFollows is on Workloads that Trellis keeps inactive until that of the first replicas has quota. One that Kueue, or an
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

// Follows reports whether a Workload gets no quota before that of the first replicas has it.
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

func (w *Workload) active() bool { return ptr.Deref(w.Spec.Active, true) }

// hold has a new Workload follow the first replicas.
func (w *Workload) hold() {
	metav1.SetMetaDataAnnotation(&w.ObjectMeta, annotationFollows, "true")
	w.Spec.Active = ptr.To(false)
}

// follow are the Workloads that must not have quota before those of the first replicas have: Kueue admits Workloads in no order that
// Trellis could rely on, and a replica that has quota while the first ones have none is placed by no one. It keeps from them what they
// need. The base comes first, then first replicas that have a Workload of their own. Once pods of the deployment run, each replica waits
// alone. members are the pods of each Workload.
func (o *Observation) follow(of Base, members map[string][]*corev1.Pod) map[string]bool {
	if o.Queue() == "" || slices.ContainsFunc(o.Pods, begun) {
		return nil
	}
	first := o.first()
	switch {
	case len(members[of.Name]) > 0 && !o.hasQuota(of.Name):
		first = map[string]bool{}
	case !slices.ContainsFunc(slices.Collect(maps.Keys(first)), func(name string) bool { return !o.hasQuota(name) }):
		return nil
	}
	first[of.Name] = true
	out := map[string]bool{}
	for name := range members {
		out[name] = !first[name]
	}
	for _, w := range o.Workloads {
		out[w.Name] = !first[w.Name]
	}
	return out
}

func (o *Observation) hasQuota(name string) bool {
	w := named(o.Workloads, name)
	return w != nil && w.holdsQuota()
}

// first are the Workloads of the pods of the first minAvailable replicas of all components.
func (o *Observation) first() map[string]bool {
	names := map[string]bool{}
	for _, sg := range o.Groups {
		pods := membersOf(sg, o.Pods)
		ordinals := gang.Ordinals(sg, pods)
		slices.Sort(ordinals)
		ordinals = ordinals[:min(len(ordinals), int(inBase(sg)))]
		for _, pod := range pods {
			ordinal, _, ok := render.ReplicaOf(pod)
			if name := WorkloadOf(pod); ok && name != "" && pod.DeletionTimestamp == nil && slices.Contains(ordinals, int(ordinal)) {
				names[name] = true
			}
		}
	}
	return names
}

// begun reports whether a pod was released, or never held.
func begun(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp == nil && len(pod.Spec.SchedulingGates) == 0
}
