// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/render"
)

// Kueue's keys on pods. The pod group of a pod has the name of the pod's Workload.
const (
	labelQueue    = render.LabelKueueQueue
	labelManaged  = "kueue.x-k8s.io/managed"
	labelGroup    = "kueue.x-k8s.io/pod-group-name"
	labelPrebuilt = "kueue.x-k8s.io/prebuilt-workload-name"

	annotationTotal   = "kueue.x-k8s.io/pod-group-total-count"
	annotationServing = "kueue.x-k8s.io/pod-group-serving"
	annotationParent  = "kueue.x-k8s.io/pod-suspending-parent"
	annotationRole    = "kueue.x-k8s.io/role-hash"
)

// parent names, in Kueue's annotation, the controller that starts and ends the pods. Kueue sets no finalizer on pods of another controller.
const parent = "trellis"

// expected is the number of pods of a Workload that must exist before Kueue treats the Workload's pods as ready, if Kueue waits for
// readiness. More pods may never exist: when a replica is scaled in or moves to another Workload, its share of the first replicas' Workload
// stays unused. In any case, Kueue requires all existing pods to be Ready.
const expected = "1"

// Gate is the scheduling gate that Kueue removes from admitted pods.
const Gate = "kueue.x-k8s.io/admission"

// PodEvicted is the type of the condition that Kueue sets on a pod when it preempts the pod's quota, before it deletes the pod.
const PodEvicted corev1.PodConditionType = "TerminationTarget"

// QueueOf returns the queue of a scaling group's pods; "" for none.
func QueueOf(sg *trellisv1alpha1.ScalingGroup) string {
	return sg.Annotations[render.AnnotationKueueQueue]
}

// WorkloadOf returns the Workload for which a pod was made; "" for none.
func WorkloadOf(pod *corev1.Pod) string {
	if pod.Annotations[annotationParent] != parent {
		return ""
	}
	return pod.Labels[labelGroup]
}

// Suits reports whether a pod that has not started is in the queue of its scaling group. If the group has no queue, the pod must be in no
// queue.
func Suits(sg *trellisv1alpha1.ScalingGroup, pod *corev1.Pod) bool {
	queue := QueueOf(sg)
	if queue == "" {
		return WorkloadOf(pod) == ""
	}
	return WorkloadOf(pod) != "" && pod.Labels[labelQueue] == queue
}

// topologyGate is a second gate that Kueue adds to pods, for flavors with a topology. If the flavor has no topology, Kueue removes both
// gates together.
const topologyGate = "kueue.x-k8s.io/topology"

// HeldAlone reports whether Kueue's gates hold a pod, and no gates of other controllers hold it. Trellis' own gate does not count.
func HeldAlone(pod *corev1.Pod) bool {
	other := func(gate string) bool { return gate != Gate && gate != topologyGate }
	return Held(pod) && !slices.ContainsFunc(render.ForeignGates(pod), other)
}

// Held reports whether Kueue's gate holds a pod.
func Held(pod *corev1.Pod) bool { return slices.Contains(render.ForeignGates(pod), Gate) }

// Joining assigns new pods of a scaling group to Workloads, for one observation of the group's pods.
type Joining struct {
	sg    *trellisv1alpha1.ScalingGroup
	roles []role
	base  Base
	// free is the number of the scaling group's replicas that can still join the base.
	free int32
	// of maps the ordinals of replicas with pods to Workload names.
	of map[int32]string
	// usable are the Workloads that pods can join, by name: they exist, and Kueue has not finished them.
	usable map[string]*Workload
}

// Join prepares the assignment of new pods of a scaling group to Workloads. groups are all scaling groups of the deployment. existing are
// the group's pods, including terminating pods. workloads are the deployment's Workloads.
func Join(sg *trellisv1alpha1.ScalingGroup, groups []*trellisv1alpha1.ScalingGroup, existing []*corev1.Pod,
	workloads []*Workload) *Joining {
	return joinAs(sg, rolesOf(sg), BaseOf(groups), existing, workloads)
}

// joinAs does the same as Join, for a caller that has already computed the roles of the scaling group and the base that Trellis would
// create now.
func joinAs(sg *trellisv1alpha1.ScalingGroup, roles []role, base Base, existing []*corev1.Pod, workloads []*Workload) *Joining {
	j := &Joining{sg: sg, roles: roles, base: base, of: map[int32]string{}, usable: map[string]*Workload{}}
	for _, w := range workloads {
		if w.usable() {
			j.usable[w.Name] = w
		}
		if w.Name == base.Name {
			j.base.PodSets = w.Spec.PodSets
		}
	}
	j.free = j.base.spaceFor(j.roles)
	members := map[int32]bool{}
	for _, pod := range existing {
		ordinal, _, ok := render.ReplicaOf(pod)
		if !ok || WorkloadOf(pod) == "" {
			continue
		}
		if pod.DeletionTimestamp == nil {
			j.of[ordinal] = WorkloadOf(pod)
		}
		if WorkloadOf(pod) == j.base.Name && !members[ordinal] {
			members[ordinal] = true
			j.free--
		}
	}
	return j
}

// spaceFor returns the number of replicas with these roles for which a base has podsets.
func (b *Base) spaceFor(roles []role) int32 {
	space := int32(math.MaxInt32)
	for _, r := range roles {
		at := slices.IndexFunc(b.PodSets, func(s PodSet) bool { return s.Name == r.name })
		if at < 0 {
			return 0
		}
		space = min(space, b.PodSets[at].Count/r.count)
	}
	return space
}

// workloadFor returns the Workload that a new pod of a replica joins. It is the Workload of the replica's other pods, or the replica's own
// Workload if it exists, or the base while the base has space, or else a new Workload for the replica.
func (j *Joining) workloadFor(ordinal int32) string {
	if name, known := j.of[ordinal]; known {
		return name
	}
	name := ownName(j.sg, ordinal, j.roles)
	if j.usable[name] == nil && j.free > 0 {
		name = j.base.Name
		j.free--
	}
	j.of[ordinal] = name
	return name
}

// Denied reports whether Kueue has evaluated a pod's Workload and has no quota for it.
func (j *Joining) Denied(pod *corev1.Pod) bool {
	w := j.usable[WorkloadOf(pod)]
	return w != nil && w.denied()
}

// Keeps reports whether a pod's Workload is admitted and the pod's successor, created from the current template, would join this Workload.
func (j *Joining) Keeps(pod *corev1.Pod) bool {
	ordinal, _, ok := render.ReplicaOf(pod)
	w := j.usable[WorkloadOf(pod)]
	if !ok || w == nil || !w.Admitted() {
		return false
	}
	return w.Name == ownName(j.sg, ordinal, j.roles) || w.Name == j.base.Name && j.base.spaceFor(j.roles) > 0
}

// Add puts a new pod into the queue, in the Workload for its replica.
func (j *Joining) Add(pod *corev1.Pod) {
	ordinal, index, _ := render.ReplicaOf(pod)
	name := j.workloadFor(ordinal)
	for key, value := range map[string]string{labelQueue: QueueOf(j.sg), labelManaged: "true", labelGroup: name, labelPrebuilt: name} {
		metav1.SetMetaDataLabel(&pod.ObjectMeta, key, value)
	}
	for key, value := range map[string]string{
		annotationTotal: expected, annotationServing: "true", annotationParent: parent, annotationRole: j.roleOf(index),
	} {
		metav1.SetMetaDataAnnotation(&pod.ObjectMeta, key, value)
	}
	if !Held(pod) {
		pod.Spec.SchedulingGates = append(pod.Spec.SchedulingGates, corev1.PodSchedulingGate{Name: Gate})
	}
}

// roleOf returns the name of the podset for the pod with this index in a replica.
func (j *Joining) roleOf(index int32) string {
	for _, r := range j.roles {
		if index < r.count {
			return r.name
		}
		index -= r.count
	}
	return ""
}
