// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/graph"
	"github.com/trellis-k8s/trellis/internal/provider/grove"
	"github.com/trellis-k8s/trellis/internal/provider/providertest"
	"github.com/trellis-k8s/trellis/test/testutil/hub"
)

// made creates an object and deletes it after the test.
func made[T ctrlclient.Object](t *testing.T, object T) T {
	t.Helper()
	if err := typed.Create(t.Context(), object); err != nil {
		t.Fatalf("creating %T %s: %v", object, object.GetName(), err)
	}
	t.Cleanup(func() { _ = typed.Delete(context.Background(), object, ctrlclient.GracePeriodSeconds(0)) })
	return object
}

// scenario is a deployment on the API server with its topology and scaling groups.
type scenario struct {
	dgd    *nvidiav1beta1.DynamoGraphDeployment
	groups []*trellisv1alpha1.ScalingGroup
}

func newScenario(t *testing.T, name, providerName string) scenario {
	t.Helper()
	dgd := deployment(t, name)
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
	made(t, ct)
	resolved, err := graph.Resolve(dgd, graph.Inputs{Topology: ct, Provider: providerName})
	if err != nil {
		t.Fatal(err)
	}
	made(t, dgd)
	s := scenario{dgd: dgd, groups: resolved.ScalingGroups()}
	for _, sg := range s.groups {
		made(t, sg)
	}
	return s
}

// place puts a pod of a replica of Decode onto a node.
func (s scenario) place(t *testing.T, ordinal, node string) {
	t.Helper()
	sg := s.groups[0]
	pod := graph.BuildPod(sg, 0, 0)
	pod.Name = "whole-0-decode-" + ordinal + "-decode-ldr-x"
	pod.Labels[grove.LabelReplica] = ordinal
	pod.Spec.NodeName = node
	made(t, pod)
}

// groveMakes creates a PodClique as Grove does of a clique of a set.
func groveMakes(t *testing.T, namespace, set string, clique grove.Clique, name string) *unstructured.Unstructured {
	t.Helper()
	return accepted(t, sent(t, &struct {
		metav1.TypeMeta   `json:",inline"`
		metav1.ObjectMeta `json:"metadata"`
		Spec              grove.CliqueSpec `json:"spec"`
	}{metav1.TypeMeta{APIVersion: "grove.io/v1alpha1", Kind: "PodClique"}, groveMeta(namespace, set, name), clique.Spec}, ""))
}

// groveMakesGroup creates a PodCliqueScalingGroup as Grove does of a set's.
func groveMakesGroup(t *testing.T, namespace, set, name string, replicas int32, cliques ...any) *unstructured.Unstructured {
	t.Helper()
	group := sent(t, &grove.PodCliqueScalingGroup{
		TypeMeta:   metav1.TypeMeta{APIVersion: "grove.io/v1alpha1", Kind: "PodCliqueScalingGroup"},
		ObjectMeta: groveMeta(namespace, set, name), Spec: grove.Replicas{Replicas: replicas},
	}, "")
	group.Object["spec"].(map[string]any)["cliqueNames"] = cliques
	return accepted(t, group)
}

func groveMeta(namespace, set, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Namespace: namespace, Labels: map[string]string{grove.LabelPartOf: set}}
}
