// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/provider/grove"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/test/testutil/hub"
	"github.com/trellis-k8s/trellis/test/testutil/providertest"
)

// made creates an object and deletes it after the spec.
func made[T ctrlclient.Object](ctx context.Context, object T) T {
	GinkgoHelper()
	Expect(typed.Create(ctx, object)).To(Succeed(), "creating %T %s", object, object.GetName())
	DeferCleanup(func(ctx SpecContext) { _ = typed.Delete(ctx, object, ctrlclient.GracePeriodSeconds(0)) })
	return object
}

// scenario is a deployment on the API server with its topology and scaling groups.
type scenario struct {
	dgd    *nvidiav1beta1.DynamoGraphDeployment
	groups []*trellisv1alpha1.ScalingGroup
}

func newScenario(ctx context.Context, name, providerName string) scenario {
	GinkgoHelper()
	dgd := deployment(name)
	dgd.Spec.TopologyConstraint.ClusterTopologyName = name
	for i := range dgd.Spec.Components {
		c := &dgd.Spec.Components[i]
		if c.PodTemplate == nil {
			c.PodTemplate = hub.Main(&corev1.Container{})
		}
		c.PodTemplate.Spec.Containers[0].Image = "registry.example/image:1"
	}
	dgd.Spec.PriorityClassName = ""
	ct := providertest.Topology()
	ct.Name, ct.UID = name, ""
	made(ctx, ct)
	resolved, err := render.Resolve(dgd, render.Inputs{Topology: ct, Provider: providerName})
	Expect(err).NotTo(HaveOccurred())
	made(ctx, dgd)
	s := scenario{dgd: dgd, groups: resolved.ScalingGroups()}
	for _, sg := range s.groups {
		made(ctx, sg)
	}
	return s
}

// place puts a pod of a replica of Decode onto a new node in a zone.
func (s scenario) place(ctx context.Context, ordinal, zone string) {
	GinkgoHelper()
	node := made(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: s.dgd.Name + "-" + zone, Labels: map[string]string{"example.com/zone": zone}}})
	sg := s.groups[0]
	pod := render.BuildPod(sg, 0, 0)
	pod.Name = s.dgd.Name + "-0-decode-" + ordinal + "-decode-ldr-x"
	pod.Labels[grove.LabelReplica] = ordinal
	pod.Spec.NodeName = node.Name
	made(ctx, pod)
}

// groveMakes creates a PodClique as Grove does of a clique of a set.
func groveMakes(ctx context.Context, namespace, set string, clique grove.Clique, name string) *unstructured.Unstructured {
	GinkgoHelper()
	return accepted(ctx, sent(&struct {
		metav1.TypeMeta   `json:",inline"`
		metav1.ObjectMeta `json:"metadata"`
		Spec              grove.CliqueSpec `json:"spec"`
	}{metav1.TypeMeta{APIVersion: "grove.io/v1alpha1", Kind: "PodClique"}, groveMeta(namespace, set, name), clique.Spec}, ""))
}

// groveMakesGroup creates a PodCliqueScalingGroup as Grove does of a set's.
func groveMakesGroup(ctx context.Context, namespace, set, name string, replicas int32, cliques ...any) *unstructured.Unstructured {
	GinkgoHelper()
	group := sent(&grove.PodCliqueScalingGroup{
		TypeMeta:   metav1.TypeMeta{APIVersion: "grove.io/v1alpha1", Kind: "PodCliqueScalingGroup"},
		ObjectMeta: groveMeta(namespace, set, name), Spec: grove.Replicas{Replicas: replicas},
	}, "")
	group.Object["spec"].(map[string]any)["cliqueNames"] = cliques
	return accepted(ctx, group)
}

func groveMeta(namespace, set, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Namespace: namespace, Labels: map[string]string{grove.LabelPartOf: set}}
}
