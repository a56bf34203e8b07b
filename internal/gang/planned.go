// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/placement"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// A planned pod does not exist yet. It has Trellis' gate, its scaling group owns it, and [PlannedUID] gives its UID. It is placed like a
// gated pod. Its release creates the pod, without the gate (docs/dev/architecture.md#created-in-place).

const plannedPrefix = "planned/"

// PlannedUID returns the UID of a planned pod.
func PlannedUID(group types.UID, pod string) types.UID {
	return types.UID(plannedPrefix + string(group) + "/" + pod)
}

// AsPlanned turns a pod of a group into a planned pod.
func AsPlanned(pod *corev1.Pod, sg *trellisv1alpha1.ScalingGroup) {
	pod.UID = PlannedUID(sg.UID, pod.Name)
	pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(sg, trellisv1alpha1.GroupVersion.WithKind("ScalingGroup"))}
	pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: render.PlacementGate}}
}

// plannedPod builds a pod of a replica from its template, with the changes that admission is expected to make; nil if the replica has no
// such pod.
func plannedPod(o *Observation, sg *trellisv1alpha1.ScalingGroup, ordinal, index int32) *corev1.Pod {
	template := render.BuildPod(sg, ordinal, index)
	if template == nil {
		return nil
	}
	pod, _ := o.Admission.Admit(template)
	AsPlanned(pod, sg)
	return pod
}

// PlannedReplica returns the planned pods of a replica, from their templates; nil for a replica that Trellis does not place.
func (o *Observation) PlannedReplica(key Key) (pods []*corev1.Pod) {
	sg := componentGroup(o.Groups, key.Component)
	if sg == nil {
		return nil
	}
	for index := range render.PodsPerReplica(sg) {
		pods = append(pods, plannedPod(o, sg, int32(key.Ordinal), index))
	}
	return pods
}

// Planned reports whether a pod does not exist yet.
func Planned(pod *corev1.Pod) bool { return isPlanned(string(pod.UID)) }

func isPlanned(id string) bool { return strings.HasPrefix(id, plannedPrefix) }

// InPlace reports whether replicas of a group may be created in place, that is, without a gate and pinned to their place. The provider of
// such a group creates nothing for a gang before its release, and Trellis creates the pods itself.
func InPlace(sg *trellisv1alpha1.ScalingGroup) bool {
	return render.Gated(sg) && specs.Named(sg.Spec.Provider).InPlace && !render.InSets(sg)
}

// Foreseeable reports whether the place of a pod can be determined before the pod exists. The place of a pod with rules about other pods,
// with volume claims or with resource claims depends on objects that do not exist before the pod.
func Foreseeable(pod *corev1.Pod) bool {
	claimed := func(v corev1.Volume) bool { return v.PersistentVolumeClaim != nil || v.Ephemeral != nil }
	if len(pod.Spec.ResourceClaims) > 0 || len(pod.Spec.TopologySpreadConstraints) > 0 || slices.ContainsFunc(pod.Spec.Volumes, claimed) {
		return false
	}
	a := pod.Spec.Affinity
	return a == nil || a.PodAffinity == nil && a.PodAntiAffinity == nil
}

// asked reports whether a replica has planned pods, which have no place yet. No pod of such a replica exists.
func (state replicaState) asked() bool { return len(state.closed) > 0 && Planned(state.closed[0]) }

// gateBaseGang removes the planned pods from a base gang that also has gated pods. The removed pods are created gated, and then released
// together with the gated pods.
func (r *Request) gateBaseGang(states map[string][]replicaState) {
	if r.Graph.Required == topology.NoLevel || r.Graph.Anchor != nil {
		return
	}
	gated := false
	for _, of := range states {
		gated = gated || slices.ContainsFunc(of, func(state replicaState) bool { return len(state.closed) > 0 && !state.asked() })
	}
	for _, of := range states {
		for i := range of {
			if state := &of[i]; gated && state.asked() {
				state.absent, state.closed = state.absent+len(state.closed), nil
			}
		}
	}
}

// Asked returns the replicas of the request that have planned pods. If planned is not nil, Asked omits the replicas that must be created
// gated because of this plan.
func (r *Request) Asked(planned *placement.Result) map[Key]bool {
	out := map[Key]bool{}
	for _, component := range r.Graph.Components {
		for i := range component.Waiting {
			if replica := &component.Waiting[i]; slices.ContainsFunc(replica.Pods, func(pod placement.Pod) bool { return isPlanned(pod.ID) }) {
				out[Key{Component: component.Name, Ordinal: replica.Ordinal}] = true
			}
		}
	}
	if planned != nil {
		for _, replica := range planned.Replicas {
			if r.notNow(planned, replica) {
				delete(out, Key{Component: replica.Component, Ordinal: replica.Ordinal})
			}
		}
	}
	return out
}

// created reports whether a replica in a plan has planned pods, which are created in place.
func created(replica placement.ReplicaResult) bool {
	return slices.ContainsFunc(replica.Pods, func(pod placement.PodResult) bool { return isPlanned(pod.ID) })
}

// notNow reports whether a placed replica with planned pods must be created gated instead of in place. This is so if other pods must be
// preempted first, for the replica or for its base gang. It is also so if the replica's component needs several replicas to run, because
// these replicas are released together when all of them exist.
func (r *Request) notNow(planned *placement.Result, replica placement.ReplicaResult) bool {
	if replica.Refusal != nil || !created(replica) {
		return false
	}
	preempts := func(one placement.ReplicaResult) bool { return one.Base && one.Preempts != nil }
	return replica.Preempts != nil || replica.Head || replica.Base && slices.ContainsFunc(planned.Replicas, preempts)
}
