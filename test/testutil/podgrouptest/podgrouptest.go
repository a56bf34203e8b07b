// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package podgrouptest makes gangs for tests of the provider PodGroup.
package podgrouptest

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/provider/podgroup"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
	"github.com/trellis-k8s/trellis/internal/render"
)

// Component returns a scaling group of a graph in one zone: pods per replica, with gpus GPUs each, packed in the level pack if set.
func Component(name string, pods int32, gpus int, pack string) *trellisv1alpha1.ScalingGroup {
	limits := corev1.ResourceList{}
	if gpus > 0 {
		limits["nvidia.com/gpu"] = *resource.NewQuantity(int64(gpus), resource.DecimalSI)
	}
	template := corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main",
		Resources: corev1.ResourceRequirements{Limits: limits, Requests: limits}}}}}
	sg := &trellisv1alpha1.ScalingGroup{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "llm-" + strings.ToLower(name)},
		Spec: trellisv1alpha1.ScalingGroupSpec{
			Graph: "llm", Component: name, Provider: specs.PodGroup.Name, Replicas: 1, Multinode: pods > 1,
			Topology: &trellisv1alpha1.ResolvedTopology{
				GraphPackDomain: "zone", PackDomain: pack,
				Levels: []trellisv1alpha1.ResolvedLevel{{Domain: "zone", Key: "k/zone"}, {Domain: "rack", Key: "k/rack"}},
			},
			Roles: []trellisv1alpha1.Role{{Name: "main", Count: 1, Template: template}},
		},
	}
	if pods > 1 {
		sg.Spec.Roles = append(sg.Spec.Roles, trellisv1alpha1.Role{Name: "worker", Count: pods - 1, Template: *template.DeepCopy()})
	}
	return sg
}

// Prepared returns the pods of a replica of a component, all of the same generation.
func Prepared(sg *trellisv1alpha1.ScalingGroup, ordinal int32) []*corev1.Pod {
	var pods []*corev1.Pod
	for index := range render.PodsPerReplica(sg) {
		pod := render.BuildPod(sg, ordinal, index)
		pod.UID = types.UID("uid-of-" + pod.Name)
		pods = append(pods, pod)
	}
	podgroup.Prepare(sg, ordinal, pods, nil, rand.String(5))
	return pods
}

// GangOfAll returns one gang with the first replica of every group.
func GangOfAll(base bool, groups ...*trellisv1alpha1.ScalingGroup) gang.Members {
	all := gang.Members{
		Name: "llm-3f9a1c0b2d", Graph: &nvidiav1beta1.DynamoGraphDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "llm",
			UID: "dgd"}},
		Groups: groups, Base: base,
	}
	for _, sg := range groups {
		all.Replicas = append(all.Replicas, gang.Member{Group: sg, Pods: Prepared(sg, 0)})
	}
	return all
}
