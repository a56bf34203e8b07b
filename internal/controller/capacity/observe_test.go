// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package capacity

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/capacity"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/placement"
	"github.com/trellis-k8s/trellis/internal/quota"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/topology"
	"github.com/trellis-k8s/trellis/test/testutil/gangtest"
)

// oneGroup is a cache with one scaling group and its pods.
type oneGroup struct {
	client.Client
	group *trellisv1alpha1.ScalingGroup
	pods  []corev1.Pod
}

func (c oneGroup) List(_ context.Context, into client.ObjectList, _ ...client.ListOption) error {
	switch list := into.(type) {
	case *trellisv1alpha1.ScalingGroupList:
		list.Items = []trellisv1alpha1.ScalingGroup{*c.group}
	case *corev1.PodList:
		list.Items = c.pods
	}
	return nil
}

type oneResult gang.Result

func (r oneResult) Get(types.NamespacedName, types.UID) (gang.Result, bool) {
	return gang.Result(r), true
}
func (oneResult) Ask(map[types.NamespacedName]string) {}

// Nodes for a gang that has quota and waits for its place are asked for by what the flavor of its quota adds to its pods.
func TestFlavorOfAGangWithQuota(t *testing.T) {
	sg := gangtest.Group("work", 1, 1, gangtest.Frozen("zone", ""))
	sg.Annotations = map[string]string{render.AnnotationKueueQueue: "q"}
	pod := gangtest.Pod(sg, 0, 0)
	quota.Join(sg, []*trellisv1alpha1.ScalingGroup{sg}, nil, nil).Add(pod)
	name := types.NamespacedName{Namespace: "ns", Name: "g"}
	dgd := &nvidiav1beta1.DynamoGraphDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name, UID: "u"}}
	spot := corev1.Toleration{Key: "spot", Operator: corev1.TolerationOpExists}
	promise := quota.Promise{pod.Annotations["kueue.x-k8s.io/role-hash"]: {NodeSelector: map[string]string{"pool": "spot"}, Tolerations: []corev1.Toleration{spot}}}
	refused := gang.Waiting{
		Component: "work", Code: placement.CodeInsufficientCapacity, Refusal: &placement.Refusal{Code: placement.CodeInsufficientCapacity, Level: topology.NoLevel},
	}
	for title, tc := range map[string]struct {
		promises map[string]quota.Promise
		want     corev1.PodSpec
	}{
		"before it has quota": {},
		"with quota": {
			map[string]quota.Promise{quota.WorkloadOf(pod): promise},
			corev1.PodSpec{NodeSelector: map[string]string{"pool": "spot"}, Tolerations: []corev1.Toleration{spot}},
		},
	} {
		r := &Reconciler{
			Client: oneGroup{group: sg, pods: []corev1.Pod{*pod.DeepCopy()}}, Results: oneResult{Waiting: []gang.Waiting{refused}}, Promises: quota.NewPromises(),
			Options: Options{Kinds: capacity.Kinds},
		}
		r.Promises.Set(name, quota.Look{Promises: tc.promises}, time.Now())
		gangs, known, err := r.gangs(t.Context(), dgd, capacity.KindPlaceholders)
		if known != (tc.promises == nil) {
			t.Errorf("%s: known is %v, though the answer is about no Workload", title, known)
		}
		if err != nil || len(gangs) != 1 {
			t.Fatalf("%s: %d gangs, %v", title, len(gangs), err)
		}
		spec := gangs[0].Sets[0].Template.Spec
		if diff := cmp.Diff(tc.want, corev1.PodSpec{NodeSelector: spec.NodeSelector, Tolerations: spec.Tolerations}); diff != "" {
			t.Errorf("%s: it is asked for (-want +got):\n%s", title, diff)
		}
	}
}
