// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
)

// listCounter counts the lists that are read.
type listCounter struct {
	client.Reader
	lists int
}

func (c *listCounter) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	c.lists++
	return c.Reader.List(ctx, list, opts...)
}

// Admission counts the nodes once, and again after a change of one that matters.
func TestCapacityOfChangedNodes(t *testing.T) {
	node := func(name, gpus string) *corev1.Node {
		return &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}},
			Status: corev1.NodeStatus{
				Allocatable: corev1.ResourceList{"nvidia.com/gpu": resource.MustParse(gpus), corev1.ResourcePods: resource.MustParse("110")},
				Conditions:  []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
			},
		}
	}
	objects := fake.NewClientBuilder().WithScheme(NewScheme()).WithObjects(node("a", "4")).Build()
	reads := &listCounter{Reader: objects}
	c := &capacity{cached: reads}
	c.stale.Store(true)
	dgd := &nvidiav1beta1.DynamoGraphDeployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "g"},
		Spec: nvidiav1beta1.DynamoGraphDeploymentSpec{Components: []nvidiav1beta1.ComponentSpec{{
			Name: "Worker",
			PodTemplate: &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{
				Name: "main", Image: "example.com/app:1",
				Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("8")}},
			}}}},
		}}},
	}
	short := []string{"Worker will wait: no host has 8 nvidia.com/gpu: the largest has 4; larger domains or hosts have to be added first"}
	old := node("a", "4")
	heartbeat := old.DeepCopy()
	heartbeat.Status.Conditions[0].LastHeartbeatTime = metav1.NewTime(time.Unix(1, 0))
	steps := []struct {
		name  string
		do    func()
		want  []string
		reads int
	}{
		{"at first", func() {}, short, 3},
		{"asked again", func() {}, short, 3},
		{"a heartbeat", func() { c.OnUpdate(old, heartbeat) }, short, 3},
		{"a larger node", func() {
			if err := objects.Create(t.Context(), node("b", "8")); err != nil {
				t.Fatal(err)
			}
			c.OnAdd(node("b", "8"), false)
		}, nil, 6},
		{"it is gone", func() {
			if err := objects.Delete(t.Context(), node("b", "8")); err != nil {
				t.Fatal(err)
			}
			c.OnDelete(node("b", "8"))
		}, short, 9},
	}
	for _, step := range steps {
		step.do()
		if diff := cmp.Diff(step.want, c.warn(dgd)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step.name, diff)
		}
		if reads.lists != step.reads {
			t.Errorf("%s: %d lists, want %d", step.name, reads.lists, step.reads)
		}
	}
}
