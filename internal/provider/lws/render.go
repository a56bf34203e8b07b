// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package lws

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/render"
)

const (
	leaderCreated = "LeaderCreated"
	recreateGroup = "RecreateGroupOnPodRestart"
	shared        = "Shared"
)

// Templates holds the pod templates of a scaling group's sets. The templates are built once for the sets of all replicas.
type Templates struct {
	sg             *trellisv1alpha1.ScalingGroup
	leader, worker *corev1.Pod
}

// For returns the templates for a scaling group whose pods LeaderWorkerSets make.
func For(sg *trellisv1alpha1.ScalingGroup) Templates {
	leader, worker := render.BuildSet(sg, 0)
	return Templates{sg: sg, leader: leader, worker: worker}
}

// Render returns the set of one replica. It calls join, if not nil, on each pod template. Like the placer for Trellis' own pods, join makes
// the pods members of a gang; it may change only their metadata and scheduler. The set has the pods' labels for replica, revision and size,
// and the restart annotation. The sets of a scaling group share memory, so callers may encode the set but must not change it. The caller
// sets owner references.
func (t Templates) Render(ordinal int32, join func(*corev1.Pod)) *LeaderWorkerSet {
	leaderPod, workerPod := render.InReplica(t.sg, ordinal, t.leader, t.worker)
	leader, worker := template(leaderPod, join), template(workerPod, join)
	return &LeaderWorkerSet{
		TypeMeta:   metav1.TypeMeta{APIVersion: Kind.GroupVersion().String(), Kind: Kind.Kind},
		ObjectMeta: t.meta(ordinal, leader.Metadata),
		Spec: Spec{
			Replicas:      ptr.To[int32](1),
			StartupPolicy: leaderCreated,
			NetworkConfig: &NetworkConfig{SubdomainPolicy: shared},
			LeaderWorkerTemplate: LeaderWorkerTemplate{
				LeaderTemplate: &leader,
				WorkerTemplate: worker,
				Size:           render.PodsPerReplica(t.sg),
				RestartPolicy:  recreateGroup,
			},
		},
	}
}

func (t Templates) meta(ordinal int32, leader PodMetadata) metav1.ObjectMeta {
	labels := maps.Clone(t.sg.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	for _, key := range []string{
		render.LabelGraph, render.LabelScalingGroup, render.LabelReplica, render.LabelRevision, render.LabelReplicaSize, render.LabelGroupUID,
	} {
		labels[key] = leader.Labels[key]
	}
	annotations := map[string]string{render.AnnotationGraph: t.sg.Spec.Graph}
	if restart, asked := leader.Annotations[render.AnnotationRestart]; asked {
		annotations[render.AnnotationRestart] = restart
	}
	return metav1.ObjectMeta{Namespace: t.sg.Namespace, Name: render.SetName(t.sg, ordinal), Labels: labels, Annotations: annotations}
}

// template returns the pod template of a role, without the fields that LeaderWorkerSet and its StatefulSets set on each pod.
func template(pod *corev1.Pod, join func(*corev1.Pod)) PodTemplate {
	if join != nil {
		join(pod)
	}
	delete(pod.Labels, render.LabelSetIndex)
	pod.Spec.Hostname, pod.Spec.Subdomain = "", ""
	return PodTemplate{Metadata: PodMetadata{Labels: pod.Labels, Annotations: pod.Annotations}, Spec: pod.Spec}
}
