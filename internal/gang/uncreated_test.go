// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/newpod"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// Pods that are still to be made count in looking ahead with what admission will add to them: as one of their role that waits has it, and else as
// the objects of the cluster say.
func TestPodsStillToBeMadeAreAdmitted(t *testing.T) {
	sg := newGroup("work", 2, 1, frozen("", "rack"))
	sg.Spec.Roles[0].Template.Spec = corev1.PodSpec{RuntimeClassName: ptr.To("gvisor"), Containers: []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{
		Limits: corev1.ResourceList{"gpu": resource.MustParse("1")},
	}}}}
	admission := newpod.Objects{
		RuntimeClasses: []*nodev1.RuntimeClass{{ObjectMeta: metav1.ObjectMeta{Name: "gvisor"}, Overhead: &nodev1.Overhead{PodFixed: corev1.ResourceList{"memory": resource.MustParse("1Gi")}}}},
		LimitRanges: []*corev1.LimitRange{{ObjectMeta: metav1.ObjectMeta{Namespace: sg.Namespace}, Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{
			Type: corev1.LimitTypeContainer, DefaultRequest: corev1.ResourceList{"cpu": resource.MustParse("2")},
		}}}}},
	}
	exists := newPod(sg, 0, 0)
	exists.Spec.Containers[0].Resources.Requests = corev1.ResourceList{"gpu": resource.MustParse("3")}
	for name, tc := range map[string]struct {
		pods      []*corev1.Pod
		admission newpod.Objects
		want      []topology.Request
	}{
		"none of its role waits":         {admission: admission, want: []topology.Request{{Name: "cpu", Amount: 2000}, {Name: "gpu", Amount: 1}, {Name: "memory", Amount: 1 << 30}}},
		"nothing is known":               {want: []topology.Request{{Name: "gpu", Amount: 1}}},
		"one of its role waits, as made": {pods: []*corev1.Pod{exists}, admission: admission, want: []topology.Request{{Name: "gpu", Amount: 3}}},
	} {
		t.Run(name, func(t *testing.T) {
			r := NewRequest(Observation{
				DGD: &nvidiav1beta1.DynamoGraphDeployment{}, Groups: []*trellisv1alpha1.ScalingGroup{sg}, Pods: tc.pods, ClusterTopology: hall, Admission: tc.admission,
			})
			waiting := r.Graph.Components[0].Waiting
			if len(waiting) != 2 {
				t.Fatalf("%d replicas wait, want 2", len(waiting))
			}
			if diff := cmp.Diff(tc.want, waiting[1].Pods[0].Shape.Requests()); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
		})
	}
}
