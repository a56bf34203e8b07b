// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/placement"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// Creation is a replica of which no pod exists, and which is created in place when a plan has one for it: its pods are created pinned and
// without Trellis' gate (docs/dev/architecture.md#created-in-place).
type Creation struct {
	// Pods of the replica by index, as the API server will store them, without Trellis' gate and without pins. The UID of each is what
	// stands for it in plans; see [PlannedUID].
	Pods []*corev1.Pod
	// Placed means that its domain is reserved, and that its pods are being created there. Domain is that domain.
	Placed bool
	Domain topology.Path
}

// Creations are the replicas that are to be created in place, by the UID of their scaling group and by ordinal.
type Creations map[types.UID]map[int32]*Creation

// of returns the creation of a replica; nil for none.
func (b Creations) of(sg *trellisv1alpha1.ScalingGroup, ordinal int) *Creation {
	return b[sg.UID][int32(ordinal)]
}

// PlannedUID stands for a pod that does not exist yet. creation differs for each time that a replica is created, so that a reservation for
// a pod is never taken for that of its predecessor or successor of the same name.
func PlannedUID(creation, pod string) types.UID { return types.UID("creation/" + creation + "/" + pod) }

// InPlace reports whether replicas of a group may be created in place: its provider has nothing to form before pods are released, and
// Trellis creates the pods itself.
func InPlace(sg *trellisv1alpha1.ScalingGroup) bool {
	return render.Gated(sg) && specs.Named(sg.Spec.Provider).InPlace && !render.InSets(sg)
}

// Foreseeable reports whether the place of a pod can be decided before it exists. That of a pod with rules about other pods, with volume
// claims or with resource claims depends on objects that do not exist before it does.
func Foreseeable(pod *corev1.Pod) bool {
	claimed := func(v corev1.Volume) bool { return v.PersistentVolumeClaim != nil || v.Ephemeral != nil }
	if len(pod.Spec.ResourceClaims) > 0 || len(pod.Spec.TopologySpreadConstraints) > 0 || slices.ContainsFunc(pod.Spec.Volumes, claimed) {
		return false
	}
	a := pod.Spec.Affinity
	return a == nil || a.PodAffinity == nil && a.PodAntiAffinity == nil
}

// asked returns the creation of a replica of which nothing exists; nil when some of it does, or when it is not created in place.
func (state replicaState) asked() *Creation {
	if state.creation == nil || state.creation.Placed || len(state.closed)+len(state.open)+len(state.leaving) > 0 {
		return nil
	}
	return state.creation
}

// beingCreated: it has its place, and its pods are being created there.
func (state replicaState) beingCreated() bool { return state.creation != nil && state.creation.Placed }

// sits: some of it is released, or is being created in place.
func (state replicaState) sits() bool { return len(state.open) > 0 || state.beingCreated() }

// allowCreations notes whether replicas may be created in place. A base gang goes together, so one gated pod has all of it
// created gated.
func (r *Request) allowCreations(states map[string][]replicaState) {
	r.creations = map[Key]*Creation{}
	if r.inPlace = true; r.Graph.Required == topology.NoLevel || r.Graph.Anchor != nil {
		return
	}
	for _, of := range states {
		if slices.ContainsFunc(of, func(state replicaState) bool { return len(state.closed) > 0 }) {
			r.inPlace = false
		}
	}
}

// addCreation has a replica of which nothing exists planned, to be created in place.
func (r *Request) addCreation(key Key, replica *placement.Replica, creation *Creation) {
	r.creations[key] = creation
	for _, pod := range creation.Pods {
		r.lowerPriority(pod)
		id := topology.PodID(pod)
		r.Gated[id] = pod
		replica.Pods = append(replica.Pods, placement.Pod{ID: id, Name: pod.Name, Shape: topology.ShapeOf(pod)})
	}
}

// PlannedReplicas are the replicas that are planned to be created in place.
func (r *Request) PlannedReplicas() map[Key]*Creation { return r.creations }

// Creation returns the creation of a planned replica; nil when its pods exist.
func (r *Request) Creation(replica placement.ReplicaResult) *Creation {
	return r.creations[Key{Component: replica.Component, Ordinal: replica.Ordinal}]
}

// NotNow reports whether a replica that is to be created in place is created gated instead: others have to leave first, for it or for the
// base gang it is of, or its component does not run without several replicas, which are released together when all of them exist.
func (r *Request) NotNow(planned *placement.Result, replica placement.ReplicaResult) bool {
	if r.Creation(replica) == nil || replica.Refusal != nil {
		return false
	}
	preempts := func(one placement.ReplicaResult) bool { return one.Base && one.Preempts != nil }
	return replica.Preempts != nil || replica.Head || replica.Base && slices.ContainsFunc(planned.Replicas, preempts)
}
