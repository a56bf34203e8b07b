// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package lws

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/framework"
	"github.com/trellis-k8s/trellis/internal/graph"
)

const (
	leaderCreated = "LeaderCreated"
	recreateGroup = "RecreateGroupOnPodRestart"
	shared        = "Shared"
	// maxSet leaves room for what is appended: the replica to the name of a StatefulSet, and a hash to that for a label of its pods.
	maxSet = 50
)

// Name of the set of one replica.
func Name(sg *trellisv1alpha1.ScalingGroup, ordinal int32) string {
	name, suffix := sg.Name, "-"+strconv.Itoa(int(ordinal))
	if name[0] >= '0' && name[0] <= '9' { // it becomes the name of a Service, which has to begin with a letter
		name = "lws-" + name
	}
	return graph.Shorten(name, sg.Name, maxSet-len(suffix)) + suffix
}

// Render returns the set of one replica of a multinode service. join, if any, makes its pods members of a group, as the placer does with
// pods of our own. Owner references are the caller's.
func Render(sg *trellisv1alpha1.ScalingGroup, ordinal int32, join func(*corev1.Pod)) *LeaderWorkerSet {
	size := graph.PodsPerReplica(sg)
	labels := maps.Clone(sg.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	maps.Copy(labels, graph.Selector(sg.Spec.Graph, sg.Name))
	labels[graph.LabelReplica] = strconv.Itoa(int(ordinal))
	leader := template(sg, ordinal, 0, join)
	return &LeaderWorkerSet{
		TypeMeta:   metav1.TypeMeta{APIVersion: Kind.GroupVersion().String(), Kind: Kind.Kind},
		ObjectMeta: metav1.ObjectMeta{Namespace: sg.Namespace, Name: Name(sg, ordinal), Labels: labels},
		Spec: Spec{
			Replicas:      ptr.To[int32](1),
			StartupPolicy: leaderCreated,
			NetworkConfig: &NetworkConfig{SubdomainPolicy: shared},
			LeaderWorkerTemplate: LeaderWorkerTemplate{
				LeaderTemplate: &leader,
				WorkerTemplate: template(sg, ordinal, 1, join),
				Size:           size,
				RestartPolicy:  recreateGroup,
			},
		},
	}
}

// template is the pod of a role without what differs between pods of one template.
func template(sg *trellisv1alpha1.ScalingGroup, ordinal, index int32, join func(*corev1.Pod)) PodTemplate {
	pod := graph.BuildPod(sg, ordinal, index)
	if join != nil {
		join(pod)
	}
	delete(pod.Labels, graph.LabelPodIndex)
	pod.Spec.Hostname, pod.Spec.Subdomain = "", ""
	vars := podVars(sg, ordinal)
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			own := slices.DeleteFunc(list[i].Env, func(e corev1.EnvVar) bool {
				return slices.ContainsFunc(vars, func(v corev1.EnvVar) bool { return v.Name == e.Name })
			})
			list[i].Env = slices.Concat(vars, own)
		}
	}
	return PodTemplate{Metadata: PodMetadata{Labels: pod.Labels, Annotations: pod.Annotations}, Spec: pod.Spec}
}

// podVars are the same variables as on pods of our own.
func podVars(sg *trellisv1alpha1.ScalingGroup, ordinal int32) []corev1.EnvVar {
	vars := framework.PodVars(ordinal, 0, graph.PodsPerReplica(sg), func(index int32) string { return address(sg, ordinal, index) })
	for i := range vars {
		if vars[i].Name == framework.EnvPodIndex {
			vars[i] = corev1.EnvVar{Name: framework.EnvPodIndex, ValueFrom: &corev1.EnvVarSource{
				FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.labels['" + LabelIndex + "']"},
			}}
		}
	}
	return vars
}

// address of a pod of the replica. The set has one replica, so every name is known beforehand; the leader's comes from LeaderWorkerSet.
func address(sg *trellisv1alpha1.ScalingGroup, ordinal, index int32) string {
	if index == 0 {
		return "$(" + envLeaderAddress + ")"
	}
	set := Name(sg, ordinal)
	return fmt.Sprintf("%s-0-%d.%s.%s", set, index, set, sg.Namespace)
}

// PodIndex reads from a pod's labels which pod of its replica it is.
func PodIndex(pod *corev1.Pod) (int32, bool) {
	n, err := strconv.ParseInt(pod.Labels[LabelIndex], 10, 32)
	return int32(n), err == nil && n >= 0
}
