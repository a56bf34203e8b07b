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

// A deployment can choose LeaderWorkerSet as the maker of the pods of its multinode components. Each replica then is one LeaderWorkerSet,
// which the scaling group owns. The owners of a pod form a chain,
//
//	ScalingGroup -> LeaderWorkerSet -> StatefulSet -> leader -> StatefulSet -> workers
//
// Reading these owners for every pod of a cluster would cost too much, so pod labels hold the scaling group's UID, the replica and the
// index.
const (
	// AnnotationWorkload on a deployment names the maker of the pods of multinode components: one of [specs.Makers].
	AnnotationWorkload = "trellis.dev/workload"

	// LabelSetIndex is LeaderWorkerSet's label for a pod's index in its replica, 0 for the leader.
	LabelSetIndex = "leaderworkerset.sigs.k8s.io/worker-index"
	// AnnotationGraph on a LeaderWorkerSet is the full name of its deployment. A label may contain only a shortened name.
	AnnotationGraph = "trellis.dev/graph"

	// envSetLeader is a variable that LeaderWorkerSet inserts before all other variables of a container.
	envSetLeader = "LWS_LEADER_ADDRESS"
	// maxSet is the maximum length of a LeaderWorkerSet's name. It leaves space for suffixes in StatefulSet names and pod labels.
	maxSet = 50
)

// InSets reports whether LeaderWorkerSets make the scaling group's pods.
func InSets(sg *trellisv1alpha1.ScalingGroup) bool {
	return sg.Spec.Workload == specs.LeaderWorkerSet
}

// OrdinalOf returns the ordinal of the replica to which an object belongs, from the object's labels.
func OrdinalOf(object metav1.Object) (int32, bool) { return labelNumber(object, LabelReplica) }

// SetName returns the name of a replica's LeaderWorkerSet. LeaderWorkerSet derives the names of other objects from this name. The "r"
// prevents the derived names from colliding with the names of Trellis' own pods, and with the sets of a component "x-0" next to a component
// "x".
func SetName(sg *trellisv1alpha1.ScalingGroup, ordinal int32) string {
	name, suffix := sg.Name, "-r"+strconv.Itoa(int(ordinal))
	if name[0] >= '0' && name[0] <= '9' { // a Service gets this name, which has to begin with a letter
		name = "lws-" + name
	}
	return fit(name, sg.Name, maxSet-len(suffix)) + suffix
}

// nameOfPod returns the name of a pod in a scaling group, whether Trellis or a LeaderWorkerSet makes the pod. Each LeaderWorkerSet has one
// replica, so the names of its pods are predictable.
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

// setVars returns the variables for the pods of a LeaderWorkerSet. LeaderWorkerSet provides the leader's address; the other addresses are
// derived from the set's name. Workers share one template, so their index comes from a label.
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

// BuildSet makes the leader of a replica's LeaderWorkerSet, and the worker that is the template for all other pods. The two pods share the
// memory of equal parts.
func BuildSet(sg *trellisv1alpha1.ScalingGroup, ordinal int32) (leader, worker *corev1.Pod) {
	b := NewBuilder(sg)
	return b.Pod(ordinal, 0), b.Pod(ordinal, 1)
}

// InReplica adapts the leader and the worker of one replica's LeaderWorkerSet to another replica. The returned pods are shallow copies:
// callers may change only the metadata and the plain fields of the specs.
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

// markForSet sets the label with the scaling group's UID, and moves the pod's index to LeaderWorkerSet's label.
func markForSet(pod *corev1.Pod, sg *trellisv1alpha1.ScalingGroup) {
	pod.Labels[LabelSetIndex] = pod.Labels[LabelPodIndex]
	delete(pod.Labels, LabelPodIndex)
	pod.Labels[LabelGroupUID] = string(sg.UID)
}
