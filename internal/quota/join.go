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

// Keys of Kueue on pods. The Workload of a pod is its group.
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

// parent starts and ends pods, like Kueue: with it Kueue puts no finalizer on them.
const parent = "trellis"

// expected is how many pods of a Workload Kueue expects at least before it counts them as ready, where it waits for that. More pods than
// this one may never exist: a replica that was scaled in, or that has moved to another Workload, leaves its share of the first replicas'
// Workload unused. All pods that do exist have to be Ready in any case.
const expected = "1"

// Gate is the scheduling gate that Kueue removes from pods that it has admitted.
const Gate = "kueue.x-k8s.io/admission"

// PodEvicted is the type of the condition that Kueue sets on a pod whose quota it takes back, before it deletes the pod.
const PodEvicted corev1.PodConditionType = "TerminationTarget"

// QueueOf is the queue that the pods of a group wait in; "" without one.
func QueueOf(sg *trellisv1alpha1.ScalingGroup) string {
	return sg.Annotations[render.AnnotationKueueQueue]
}

// WorkloadOf is the Workload that a pod was made for; "" for none.
func WorkloadOf(pod *corev1.Pod) string {
	if pod.Annotations[annotationParent] != parent {
		return ""
	}
	return pod.Labels[labelGroup]
}

// Suits reports whether a pod that has not begun is as one of its group is made now: in the group's queue, or in none where the group has
// none.
func Suits(sg *trellisv1alpha1.ScalingGroup, pod *corev1.Pod) bool {
	queue := QueueOf(sg)
	if queue == "" {
		return WorkloadOf(pod) == ""
	}
	return WorkloadOf(pod) != "" && pod.Labels[labelQueue] == queue
}

// topologyGate is what Kueue adds to pods in addition, for the case that a flavor has a topology. It removes both together where none has.
const topologyGate = "kueue.x-k8s.io/topology"

// HeldAlone reports whether of all gates of others only Kueue's hold a pod.
func HeldAlone(pod *corev1.Pod) bool {
	other := func(gate string) bool { return gate != Gate && gate != topologyGate }
	return Held(pod) && !slices.ContainsFunc(render.ForeignGates(pod), other)
}

// Held reports whether Kueue's gate holds a pod.
func Held(pod *corev1.Pod) bool { return slices.Contains(render.ForeignGates(pod), Gate) }

// Joining is one look at the pods of a group, for new pods to join Workloads.
type Joining struct {
	sg    *trellisv1alpha1.ScalingGroup
	roles []role
	base  Base
	// free is how many more replicas of the group the base has space for.
	free int32
	// of are the Workloads of replicas of which some pods exist.
	of map[int32]string
	// usable are the Workloads that pods can join: those that exist and Kueue has not finished with.
	usable map[string]*Workload
}

// Join prepares new pods of a group to join Workloads. groups are all of the deployment; existing are the group's pods, those that end
// included; workloads are those of the deployment.
func Join(sg *trellisv1alpha1.ScalingGroup, groups []*trellisv1alpha1.ScalingGroup, existing []*corev1.Pod,
	workloads []*Workload) *Joining {
	return joinAs(sg, rolesOf(sg), BaseOf(groups), existing, workloads)
}

// joinAs is Join with the roles of the group, and the base as it would be created now.
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

// spaceFor is how many replicas of such roles a base has podsets for.
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

// workloadFor is the Workload that a new pod of a replica joins: that of the replica's other pods, or the replica's own where it has one,
// or the base while there is space.
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

// Denied reports whether Kueue has looked at the Workload of a pod and has no quota for it.
func (j *Joining) Denied(pod *corev1.Pod) bool {
	w := j.usable[WorkloadOf(pod)]
	return w != nil && w.denied()
}

// Keeps reports whether a successor of a pod, as pods of its group are made now, joins the pod's Workload, which has quota.
func (j *Joining) Keeps(pod *corev1.Pod) bool {
	ordinal, _, ok := render.ReplicaOf(pod)
	w := j.usable[WorkloadOf(pod)]
	if !ok || w == nil || !w.Admitted() {
		return false
	}
	return w.Name == ownName(j.sg, ordinal, j.roles) || w.Name == j.base.Name && j.base.spaceFor(j.roles) > 0
}

// Add has a new pod wait in the queue, in the Workload of its replica.
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

// roleOf is the podset of a pod of a replica, by its index.
func (j *Joining) roleOf(index int32) string {
	for _, r := range j.roles {
		if index < r.count {
			return r.name
		}
		index -= r.count
	}
	return ""
}
