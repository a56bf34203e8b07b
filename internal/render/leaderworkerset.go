// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"maps"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/framework"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
)

// A deployment may have the pods of its multinode components made by LeaderWorkerSets, one for each replica, which belong to the scaling
// group. Pods then hang from it by a chain of owners,
//
//	ScalingGroup -> LeaderWorkerSet -> StatefulSet -> leader -> StatefulSet -> workers
//
// To read these owners for every pod of a cluster costs too much: the pods' labels have the group's UID, the replica and the pod's index.
const (
	// AnnotationWorkload on a deployment names what makes the pods of its multinode components: one of [specs.Makers].
	AnnotationWorkload = "trellis.dev/workload"

	// LabelSetIndex is what LeaderWorkerSet puts on its pods: the index in the replica, 0 for the leader.
	LabelSetIndex = "leaderworkerset.sigs.k8s.io/worker-index"
	// AnnotationGraph on a LeaderWorkerSet is the whole name of its deployment, of which a label may hold a part only.
	AnnotationGraph = "trellis.dev/graph"

	// envSetLeader is the variable that LeaderWorkerSet puts before all others of a container.
	envSetLeader = "LWS_LEADER_ADDRESS"
	// maxSet leaves space for what is appended: the replica to the name of a StatefulSet, and a hash to that for a label of its pods.
	maxSet = 50
)

// InSets reports whether LeaderWorkerSets make the group's pods.
func InSets(sg *trellisv1alpha1.ScalingGroup) bool {
	return sg.Spec.Workload == specs.LeaderWorkerSet
}

// OrdinalOf reads from labels which replica of its group an object is of.
func OrdinalOf(object metav1.Object) (int32, bool) { return labelNumber(object, LabelReplica) }

// SetName names the LeaderWorkerSet of a replica. The "r" keeps what LeaderWorkerSet names after it apart from pods of our own and from the
// sets of a component "x-0" alongside a component "x".
func SetName(sg *trellisv1alpha1.ScalingGroup, ordinal int32) string {
	name, suffix := sg.Name, "-r"+strconv.Itoa(int(ordinal))
	if name[0] >= '0' && name[0] <= '9' { // it becomes the name of a Service, which has to begin with a letter
		name = "lws-" + name
	}
	return fit(name, sg.Name, maxSet-len(suffix)) + suffix
}

// nameOfPod is the name of a pod of a group, regardless of who makes it. A set has one replica, so its pods' names are known beforehand.
func nameOfPod(sg *trellisv1alpha1.ScalingGroup, ordinal, index int32) string {
	if !InSets(sg) {
		return podName(sg.Name, sg.Spec.Multinode, ordinal, index)
	}
	name := SetName(sg, ordinal) + "-0"
	if index > 0 {
		name += "-" + strconv.Itoa(int(index))
	}
	return name
}

// setVars are the variables of the pods of a set. The leader's address comes from LeaderWorkerSet, the others follow from the set's name;
// and workers share one template, so the index is read from the label.
func setVars(sg *trellisv1alpha1.ScalingGroup, ordinal int32) []corev1.EnvVar {
	set := SetName(sg, ordinal)
	before, after := set+"-0-", "."+set+"."+sg.Namespace
	vars := framework.PodVars(ordinal, 0, PodsPerReplica(sg), func(index int32) string {
		if index == 0 {
			return "$(" + envSetLeader + ")"
		}
		return before + strconv.Itoa(int(index)) + after
	})
	for i := range vars {
		if vars[i].Name == framework.EnvPodIndex {
			vars[i] = fieldEnv(framework.EnvPodIndex, "metadata.labels['"+LabelSetIndex+"']")
		}
	}
	return vars
}

// BuildSet makes the leader of a replica's set and the worker that its other pods are alike to. They share what is the same in both.
func BuildSet(sg *trellisv1alpha1.ScalingGroup, ordinal int32) (leader, worker *corev1.Pod) {
	b := NewBuilder(sg)
	return b.Pod(ordinal, 0), b.Pod(ordinal, 1)
}

// InReplica is the leader and the worker of a set as they are in another replica. They share what is the same in both, so of the result
// only metadata and the plain fields of the spec may be changed.
func InReplica(sg *trellisv1alpha1.ScalingGroup, ordinal int32, leader, worker *corev1.Pod) (otherLeader, otherWorker *corev1.Pod) {
	var vars []corev1.EnvVar
	if leader.Labels[LabelReplica] != strconv.Itoa(int(ordinal)) {
		vars = setVars(sg, ordinal)
	}
	return inReplica(leader, ordinal, vars), inReplica(worker, ordinal, vars)
}

func inReplica(pod *corev1.Pod, ordinal int32, vars []corev1.EnvVar) *corev1.Pod {
	out := *pod
	out.Labels, out.Annotations = maps.Clone(pod.Labels), maps.Clone(pod.Annotations)
	replica := strconv.Itoa(int(ordinal))
	if out.Labels[LabelReplica] == replica {
		return &out
	}
	out.Labels[LabelReplica] = replica
	for _, containers := range []*[]corev1.Container{&out.Spec.InitContainers, &out.Spec.Containers} {
		*containers = slices.Clone(*containers)
		for i := range *containers {
			c := &(*containers)[i]
			c.Env = slices.Clone(c.Env)
			for _, v := range vars {
				if at := indexEnv(c.Env, v.Name); at >= 0 { // see [framework.WithoutHosts]
					c.Env[at] = v
				}
			}
		}
	}
	return &out
}

// markForSet has the pod say whose it is, and take its index from LeaderWorkerSet.
func markForSet(pod *corev1.Pod, sg *trellisv1alpha1.ScalingGroup) {
	pod.Labels[LabelSetIndex] = pod.Labels[LabelPodIndex]
	delete(pod.Labels, LabelPodIndex)
	pod.Labels[LabelGroupUID] = string(sg.UID)
}
