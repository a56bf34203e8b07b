// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"maps"
	"math"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/framework"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
)

// PodsPerReplica returns the number of pods of one replica, at most math.MaxInt32.
func PodsPerReplica(sg *trellisv1alpha1.ScalingGroup) int32 {
	var pods int64
	for i := range sg.Spec.Roles {
		pods += int64(sg.Spec.Roles[i].Count)
	}
	return int32(min(pods, math.MaxInt32))
}

// Oversized reports whether a replica has more pods than the API allows. Such a scaling group was stored before this limit existed. None of
// its pods is built, because each pod would list the addresses of all pods.
func Oversized(sg *trellisv1alpha1.ScalingGroup) bool {
	return PodsPerReplica(sg) > nvidiav1beta1.MaxNodeCount
}

// Gated reports whether Trellis places the scaling group's replicas as gangs, which is the case if the component or its graph has a
// constraint, required or preferred, or if a replica has several pods. The kube-scheduler places all other replicas.
func Gated(sg *trellisv1alpha1.ScalingGroup) bool {
	return specs.Named(sg.Spec.Provider).Planned && packed(sg.Spec.Multinode, sg.Spec.Topology)
}

// packed reports whether a component is multinode or has a constraint. If Trellis plans the pods of such a component, it places the
// replicas as gangs.
func packed(multinode bool, t *trellisv1alpha1.ResolvedTopology) bool {
	return multinode || packs(t)
}

// BuildPod makes the pod with this index in the replica with this ordinal, for the replica's first attempt. In a multinode replica, index 0
// is the leader. BuildPod returns nil if the replica has no pod with this index. The caller sets owner references.
func BuildPod(sg *trellisv1alpha1.ScalingGroup, ordinal, index int32) *corev1.Pod {
	return NewBuilder(sg).Pod(ordinal, index)
}

// Builder makes many pods of one scaling group. The pods of one replica share the list of their addresses, whose length grows with the size
// of the replica. If the pods are built replica by replica, their memory therefore grows linearly with the number of pods, not
// quadratically. A Builder is not safe for concurrent use.
type Builder struct {
	sg     *trellisv1alpha1.ScalingGroup
	common alike
}

// NewBuilder returns a builder for the group's pods.
func NewBuilder(sg *trellisv1alpha1.ScalingGroup) *Builder {
	return &Builder{sg: sg, common: alikeIn(sg)}
}

// Pod makes a pod as BuildPod does.
func (b *Builder) Pod(ordinal, index int32) *corev1.Pod { return b.PodOfAttempt(ordinal, index, 1) }

// PodOfAttempt makes a pod as BuildPod does, but with the host name of another attempt of its replica; see [HostAttempt]. All pods of a
// replica must be built for the same attempt, because they find each other by these host names.
func (b *Builder) PodOfAttempt(ordinal, index, attempt int32) *corev1.Pod {
	return buildPod(b.sg, replicaAt{ordinal, attempt}, index, &b.common)
}

// replicaAt identifies one attempt of a replica.
type replicaAt struct{ ordinal, attempt int32 }

// PodName returns the name of the pod with this index in the replica with this ordinal. The pod need not exist yet.
func PodName(sg *trellisv1alpha1.ScalingGroup, ordinal, index int32) string {
	return nameOfPod(sg, ordinal, index)
}

// alike holds the values that all pods of a scaling group share, in addition to their templates.
type alike struct {
	labels map[string]string
	where  *whereabouts
	// vars caches the variables of pod 0 of varsOf, the replica that was built last; nil before the first replica.
	vars   []corev1.EnvVar
	varsOf replicaAt
}

func alikeIn(sg *trellisv1alpha1.ScalingGroup) alike {
	labels := groupSelector(sg.Spec.Graph, sg.Name)
	labels[LabelRevision] = LabelValue(sg.Spec.Revision)
	return alike{labels: labels, where: whereaboutsOf(sg.Spec.Topology)}
}

func buildPod(sg *trellisv1alpha1.ScalingGroup, at replicaAt, index int32, common *alike) *corev1.Pod {
	role, ordinal := RoleOf(sg, index), at.ordinal
	if role == nil {
		return nil
	}
	template := role.Template.DeepCopy()
	pod := &corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{
			Name:        nameOfPod(sg, ordinal, index),
			Namespace:   sg.Namespace,
			Labels:      template.Labels,
			Annotations: template.Annotations,
		},
		Spec: template.Spec,
	}
	labelPod(pod, common, role.Name, ordinal, index)
	markReplica(pod, sg)
	if InSets(sg) {
		markForSet(pod, sg)
	}
	pod.Spec.ServiceAccountName = AccountOf(template, sg.Spec.Graph)
	if sg.Spec.Multinode {
		introduce(pod, sg, at, index, common)
	}
	joinOwnDomain(&pod.Spec, ordinal)
	locate(pod, common.where)
	if Gated(sg) {
		pod.Spec.SchedulingGates = append(pod.Spec.SchedulingGates, corev1.PodSchedulingGate{Name: PlacementGate})
	}
	return pod
}

// RoleOf returns the role of the pod with this index in a replica; nil if the replica has no such pod.
func RoleOf(sg *trellisv1alpha1.ScalingGroup, index int32) *trellisv1alpha1.Role {
	for i := range sg.Spec.Roles {
		role := &sg.Spec.Roles[i]
		if index >= 0 && index < role.Count {
			return role
		}
		index -= role.Count
	}
	return nil
}

func labelPod(pod *corev1.Pod, common *alike, role string, ordinal, index int32) {
	labels := make(map[string]string, len(pod.Labels)+len(common.labels)+7) // labels below, of markReplica, markForSet and the provider
	maps.Copy(labels, pod.Labels)
	maps.Copy(labels, common.labels)
	pod.Labels = labels
	pod.Labels[LabelRole] = role
	pod.Labels[LabelReplica] = strconv.Itoa(int(ordinal))
	pod.Labels[LabelPodIndex] = strconv.Itoa(int(index))
}

// introduce sets a pod's DNS name below the headless Service, and the environment variables of the launch command, so that the pods of one
// replica find each other.
func introduce(pod *corev1.Pod, sg *trellisv1alpha1.ScalingGroup, at replicaAt, index int32, common *alike) {
	var vars []corev1.EnvVar
	if InSets(sg) {
		pod.Spec.Hostname, pod.Spec.Subdomain, vars = pod.Name, SetName(sg, at.ordinal), setVars(sg, at.ordinal)
	} else {
		pod.Spec.Hostname, pod.Spec.Subdomain = hostName(pod.Name, at.attempt), headlessName(sg.Name)
		vars = common.podVars(sg, at, index)
	}
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			containers[i].Env = slices.Concat(framework.WithoutHosts(&containers[i], vars), containers[i].Env)
		}
	}
}

// podVars returns the environment variables of one pod. The variables of a replica's pods differ only in the index, and share the list of
// addresses.
func (a *alike) podVars(sg *trellisv1alpha1.ScalingGroup, at replicaAt, index int32) []corev1.EnvVar {
	if a.vars == nil || a.varsOf != at {
		domain := headlessName(sg.Name)
		a.varsOf, a.vars = at, framework.PodVars(at.ordinal, 0, PodsPerReplica(sg), func(i int32) string {
			return hostName(podName(sg.Name, true, at.ordinal, i), at.attempt) + "." + domain + "." + sg.Namespace + ".svc"
		})
	}
	vars := slices.Clone(a.vars)
	for i := range vars {
		if vars[i].Name == framework.EnvPodIndex {
			vars[i].Value = strconv.Itoa(int(index))
		}
	}
	return vars
}

// AttemptOf returns the attempt in a pod's [AnnotationAttempt]; 0 for none.
func AttemptOf(pod *corev1.Pod) int32 {
	n, err := strconv.ParseInt(pod.Annotations[AnnotationAttempt], 10, 32)
	if err != nil {
		return 0
	}
	return int32(n)
}

// ReplicaOf returns the ordinal of a pod's replica, and the pod's index in the replica. It reads both from the pod's labels.
func ReplicaOf(pod *corev1.Pod) (ordinal, index int32, ok bool) {
	ordinal, okOrdinal := labelNumber(pod, LabelReplica)
	index, okIndex := labelNumber(pod, LabelPodIndex)
	if !okIndex {
		index, okIndex = labelNumber(pod, LabelSetIndex)
	}
	if !okOrdinal || !okIndex {
		return 0, 0, false
	}
	return ordinal, index, true
}

func labelNumber(object metav1.Object, key string) (int32, bool) {
	n, err := strconv.ParseInt(object.GetLabels()[key], 10, 32)
	return int32(n), err == nil && n >= 0
}
