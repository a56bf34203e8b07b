// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"cmp"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/render"
)

// Of returns the name of the replica to which a pod of Trellis belongs; "" for other pods, because each of them is a unit of its own.
func Of(pod *corev1.Pod) string {
	group := pod.Labels[render.LabelScalingGroup]
	if group == "" {
		return ""
	}
	return pod.Namespace + "/" + group + "-" + pod.Labels[render.LabelReplica]
}

// ReplicaName returns the name that [Of] gives to a replica; "" for a replica that Trellis does not place.
func (o *Observation) ReplicaName(key Key) string {
	sg := componentGroup(o.Groups, key.Component)
	if sg == nil {
		return ""
	}
	return replicaName(sg, key.Ordinal)
}

// replicaName returns the name that [Of] gives to a replica.
func replicaName(sg *trellisv1alpha1.ScalingGroup, ordinal int) string {
	return fmt.Sprintf("%s/%s-%d", sg.Namespace, sg.Name, ordinal)
}

// NameOf returns the name that [Of] gives to a replica, including replicas that Trellis does not place; "" for a component without a
// scaling group.
func (o *Observation) NameOf(key Key) string {
	for _, sg := range o.Groups {
		if sg.Spec.Component == key.Component {
			return replicaName(sg, key.Ordinal)
		}
	}
	return ""
}

// Leaving reports whether a pod is being deleted or has terminated. Such a pod neither anchors a domain nor waits to be placed.
func Leaving(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded
}

// KeyOf returns the replica of a pod; the zero value if the pod belongs to none of the graph's scaling groups.
func (o *Observation) KeyOf(pod *corev1.Pod) Key {
	sg := groupOf(o.Groups, pod)
	if sg == nil {
		return Key{}
	}
	ordinal, _, _ := render.ReplicaOf(pod)
	return Key{Component: sg.Spec.Component, Ordinal: int(ordinal)}
}

// Leaves reports whether a pod is leaving, or must be deleted because its attempt is superseded.
func (o *Observation) Leaves(pod *corev1.Pod) bool {
	sg := groupOf(o.Groups, pod)
	return Leaving(pod) || sg != nil && o.superseded(sg, pod)
}

// superseded reports whether a pod was released or created at an attempt that is lower than the lowest valid attempt of its replica. Such a
// pod must be deleted, and is treated like a leaving pod.
func (o *Observation) superseded(sg *trellisv1alpha1.ScalingGroup, pod *corev1.Pod) bool {
	attempt := render.AttemptOf(pod)
	if attempt == 0 || o.Record == nil || render.GateClosed(pod) {
		return false
	}
	ordinal, _, _ := render.ReplicaOf(pod)
	return attempt < o.Record.LowestAttempt(Key{Component: sg.Spec.Component, Ordinal: int(ordinal)})
}

// WaitsForScheduler reports whether a pod is released and not bound yet.
func WaitsForScheduler(pod *corev1.Pod) bool {
	return pod.Annotations[render.AnnotationGang] != "" && pod.Spec.NodeName == "" && !render.GateClosed(pod) && !Leaving(pod)
}

// WhyUnschedulable returns the message of the scheduler that does not bind a pod, whatever the reason in the pod's condition; "" for none.
// It ignores the condition of a gated pod, because no scheduler has set that condition.
func WhyUnschedulable(pod *corev1.Pod) string {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason != corev1.PodReasonSchedulingGated {
			return cmp.Or(c.Message, c.Reason, "no reason given")
		}
	}
	return ""
}

// boundAt returns the time at which a pod was bound; nil when the pod's conditions lack it.
func boundAt(pod *corev1.Pod) *metav1.Time {
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == corev1.PodScheduled && c.Status == corev1.ConditionTrue {
			return &c.LastTransitionTime
		}
	}
	return nil
}

// FirstPods returns the pod with the lowest index of each replica, by component label and ordinal. This pod represents the replica.
// FirstPods skips leaving pods.
func FirstPods(pods []*corev1.Pod) map[Key]*corev1.Pod {
	first, lowest := map[Key]*corev1.Pod{}, map[Key]int32{}
	for _, pod := range pods {
		ordinal, index, ok := render.ReplicaOf(pod)
		if !ok || Leaving(pod) {
			continue
		}
		key := Key{Component: pod.Labels[render.LabelComponent], Ordinal: int(ordinal)}
		if known := first[key]; known == nil || index < lowest[key] {
			first[key], lowest[key] = pod, index
		}
	}
	return first
}

// PinnedHost returns the node to which a released pod is pinned by name; "" if the pod is pinned to no node, or to several nodes.
func PinnedHost(pod *corev1.Pod) string {
	if hosts := hostsNamed(pod); len(hosts) == 1 {
		return hosts[0]
	}
	return ""
}

func podsByGroup(pods []*corev1.Pod) map[string][]*corev1.Pod {
	out := map[string][]*corev1.Pod{}
	for _, pod := range pods {
		if _, uid, ok := render.GroupOf(pod); ok {
			out[string(uid)] = append(out[string(uid)], pod)
		}
	}
	return out
}

func podsByOrdinal(pods []*corev1.Pod) map[int][]*corev1.Pod {
	out := map[int][]*corev1.Pod{}
	for _, pod := range pods {
		if ordinal, _, ok := render.ReplicaOf(pod); ok {
			out[int(ordinal)] = append(out[int(ordinal)], pod)
		}
	}
	return out
}
