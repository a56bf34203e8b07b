// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"crypto/sha256"
	"reflect"
	"slices"
	"unique"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/lru"

	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/strip"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// StripPod is a cache transform that drops most fields of pods: two hundred thousand complete pods would not fit in memory. Of Trellis'
// pods it keeps the rules about nodes, the requests and the state. Of other pods it keeps only the fields that affect the capacity of
// nodes.
func StripPod(obj any) (any, error) {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return obj, nil
	}
	pod.Labels = strip.Labels(pod.Labels)
	if pod.Labels[render.LabelScalingGroup] != "" && len(pod.OwnerReferences)+len(pod.Finalizers) <= maxOwners {
		return counted(pod, likeOthers(stripOurs(pod))), nil
	}
	delete(pod.Labels, render.LabelScalingGroup)
	return counted(pod, likeOthers(stripOthers(pod))), nil
}

// maxOwners is the maximum total number of owner references and finalizers of a Trellis pod. A pod with more is stripped like a pod of
// another owner: Trellis creates no such pods.
const maxOwners = 64

// lastSpecs and lastAffinities cache parts of recently seen pods: most pods of a role, or of a Deployment, have equal parts. An entry is
// about 2 KiB. Parts larger than maxShared are not cached, since an entry outlives its pods. Affinities are cached separately, since the
// pods of one role may have different hosts.
var lastSpecs, lastAffinities = lru.New(4096), lru.New(4096)

// maxShared is the maximum size, in bytes, of a part that pods share.
const maxShared = 4 << 10

// likeOthers replaces parts of a pod with equal parts of other pods, so that equal parts are in memory only once. Callers must therefore
// not change a pod of the cache.
func likeOthers(pod *corev1.Pod) *corev1.Pod {
	spec := &pod.Spec
	same := &corev1.PodSpec{
		Containers: spec.Containers, InitContainers: spec.InitContainers, Tolerations: spec.Tolerations,
		TopologySpreadConstraints: spec.TopologySpreadConstraints, Overhead: spec.Overhead,
	}
	same = inMemoryOnce(lastSpecs, same)
	spec.Containers, spec.InitContainers, spec.Overhead = same.Containers, same.InitContainers, same.Overhead
	if reflect.DeepEqual(spec.Tolerations, same.Tolerations) { // an empty list and no list have the same key
		spec.Tolerations = same.Tolerations
	}
	if reflect.DeepEqual(spec.TopologySpreadConstraints, same.TopologySpreadConstraints) {
		spec.TopologySpreadConstraints = same.TopologySpreadConstraints
	}
	if spec.Affinity == nil {
		return pod
	}
	if affinity := inMemoryOnce(lastAffinities, spec.Affinity); reflect.DeepEqual(spec.Affinity, affinity) {
		spec.Affinity = affinity
	}
	return pod
}

// inMemoryOnce returns the cached part that equals part. If there is none, it returns part, and adds part to the cache unless part is too
// large.
func inMemoryOnce[T interface{ Marshal() ([]byte, error) }](last *lru.Cache, part T) T {
	text, err := part.Marshal()
	if err != nil || len(text) > maxShared { // the pod keeps a part of its own
		return part
	}
	key := sha256.Sum256(text)
	if known, ok := last.Get(key); ok {
		return known.(T)
	}
	last.Add(key, part)
	return part
}

// counted returns the stripped pod. It restores the complete status if the status affects the pod's requests, as during an in-place resize.
func counted(whole, stripped *corev1.Pod) *corev1.Pod {
	if !topology.SameRequests(whole, stripped) {
		stripped.Status = whole.Status
	}
	return stripped
}

func stripOthers(pod *corev1.Pod) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pod.Namespace, Name: pod.Name, Labels: sharedLabels(pod.Labels), UID: pod.UID, ResourceVersion: pod.ResourceVersion,
			DeletionTimestamp:          pod.DeletionTimestamp,
			DeletionGracePeriodSeconds: pod.DeletionGracePeriodSeconds, CreationTimestamp: pod.CreationTimestamp,
		},
		Spec: corev1.PodSpec{
			NodeName: pod.Spec.NodeName, Overhead: pod.Spec.Overhead, Resources: pod.Spec.Resources,
			Containers: stripContainers(pod.Spec.Containers), InitContainers: stripContainers(pod.Spec.InitContainers),
			HostNetwork: pod.Spec.HostNetwork, Priority: pod.Spec.Priority, SchedulerName: otherScheduler(pod),
			Affinity: repulsion(pod), Volumes: claimed(pod),
		},
		Status: corev1.PodStatus{Phase: pod.Status.Phase, StartTime: pod.Status.StartTime},
	}
}

// stripOurs drops the container configuration, which is the largest part of a pod. Trellis reads it from the scaling group, never from
// pods.
func stripOurs(pod *corev1.Pod) *corev1.Pod {
	out := &corev1.Pod{ObjectMeta: pod.ObjectMeta, Spec: pod.Spec, Status: pod.Status}
	out.ManagedFields = nil
	out.Labels, out.Annotations = shared(pod.Labels), shared(strip.Annotations(pod.Annotations))
	out.Spec.NodeSelector = shared(pod.Spec.NodeSelector)
	out.Spec.Containers, out.Spec.InitContainers = stripContainers(pod.Spec.Containers), stripContainers(pod.Spec.InitContainers)
	out.Spec.EphemeralContainers = stripEphemeral(pod.Spec.EphemeralContainers)
	out.Spec.ImagePullSecrets, out.Spec.HostAliases, out.Spec.SecurityContext, out.Spec.DNSConfig = nil, nil, nil, nil
	out.Spec.Volumes = claimed(pod)
	// a decoded slice can have twice the capacity that it needs
	out.Status.Conditions = slices.Clone(pod.Status.Conditions)
	out.Status.AllocatedResources, out.Status.Resources, out.Status.NodeAllocatableResourceClaimStatuses = nil, nil, nil // see counted
	out.Status.PodIPs, out.Status.HostIPs, out.Status.EphemeralContainerStatuses = nil, nil, nil
	out.Status.ContainerStatuses, out.Status.InitContainerStatuses = stripStatuses(pod.Status.ContainerStatuses),
		stripStatuses(pod.Status.InitContainerStatuses)
	return out
}

// claimed returns the volumes of a pod that restrict its nodes.
func claimed(pod *corev1.Pod) (out []corev1.Volume) {
	for _, v := range pod.Spec.Volumes {
		if v.PersistentVolumeClaim != nil || v.Ephemeral != nil {
			out = append(out, v)
		}
	}
	return out
}

// repulsion returns the required anti-affinity of a running pod, which keeps other pods off its host, rack or zone.
func repulsion(pod *corev1.Pod) *corev1.Affinity {
	if a := pod.Spec.Affinity; a != nil && a.PodAntiAffinity != nil &&
		len(a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution) > 0 {
		return &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution}}
	}
	return nil
}

// lastLabels are the labels of the pods that were seen last: the pods of one Deployment have equal labels.
var lastLabels = lru.New(4096)

// sharedLabels returns the labels of a pod. Pods with equal labels share one map in memory.
func sharedLabels(labels map[string]string) map[string]string {
	if len(labels) == 0 {
		return nil
	}
	key := metav1.FormatLabelSelector(&metav1.LabelSelector{MatchLabels: labels})
	if len(key) > maxShared {
		return labels
	}
	if known, ok := lastLabels.Get(key); ok {
		return known.(map[string]string)
	}
	out := shared(labels)
	lastLabels.Add(key, out)
	return out
}

// shared copies a map and interns its strings, because many pods have equal keys and mostly equal values. Pods that are read at about the
// same time, as at the start, share these strings in memory.
func shared(m map[string]string) map[string]string {
	if m == nil {
		return nil
	}
	out := make(map[string]string, len(m))
	for key, value := range m {
		out[unique.Make(key).Value()] = unique.Make(value).Value()
	}
	return out
}

func stripStatuses(statuses []corev1.ContainerStatus) []corev1.ContainerStatus {
	var out []corev1.ContainerStatus
	for i := range statuses {
		s := &statuses[i]
		out = append(out, corev1.ContainerStatus{
			Name: s.Name, State: s.State, LastTerminationState: s.LastTerminationState, Ready: s.Ready, RestartCount: s.RestartCount, Image: s.Image,
		})
	}
	return out
}

// otherScheduler returns the pod's scheduler. For the default scheduler it returns "", which means the same and takes no memory.
func otherScheduler(pod *corev1.Pod) string {
	if pod.Spec.SchedulerName == corev1.DefaultSchedulerName {
		return ""
	}
	return pod.Spec.SchedulerName
}

func stripContainers(containers []corev1.Container) []corev1.Container {
	if len(containers) == 0 {
		return nil
	}
	out := make([]corev1.Container, 0, len(containers))
	for i := range containers {
		c := &containers[i]
		stripped := corev1.Container{
			Name: c.Name, Resources: c.Resources, RestartPolicy: c.RestartPolicy,
			RestartPolicyRules: restartRules(c), VolumeMounts: mountOptions(c.VolumeMounts),
		}
		for _, port := range c.Ports {
			if port.HostPort != 0 {
				stripped.Ports = append(stripped.Ports, port)
			}
		}
		out = append(out, stripped)
	}
	return out
}

// restartRules keeps one rule that restarts all containers of a pod, if a container has such a rule. Pods with such a rule need nodes that
// declare this feature in status.declaredFeatures.
func restartRules(c *corev1.Container) []corev1.ContainerRestartRule {
	const all = corev1.ContainerRestartRuleActionRestartAllContainers
	if slices.ContainsFunc(c.RestartPolicyRules, func(r corev1.ContainerRestartRule) bool { return r.Action == all }) {
		return []corev1.ContainerRestartRule{{Action: all}}
	}
	return nil
}

// mountOptions keeps one bind mount option of a container, if there is any. Pods with bind mount options need nodes that declare this
// feature in status.declaredFeatures.
func mountOptions(mounts []corev1.VolumeMount) []corev1.VolumeMount {
	for i := range mounts {
		if options := mounts[i].BindMountOptions; len(options) > 0 {
			return []corev1.VolumeMount{{BindMountOptions: options[:1:1]}}
		}
	}
	return nil
}

// stripEphemeral keeps one mount option of ephemeral containers.
func stripEphemeral(containers []corev1.EphemeralContainer) []corev1.EphemeralContainer {
	for i := range containers {
		if mounts := mountOptions(containers[i].VolumeMounts); mounts != nil {
			return []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{VolumeMounts: mounts}}}
		}
	}
	return nil
}
