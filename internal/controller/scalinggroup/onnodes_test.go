// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scalinggroup

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/test/testutil/indexed"
)

// A change of a node concerns the groups with pods on it, each once: all when its readiness or its cordon changes, or it is to be removed or
// gone, and when its labels change those whose pods are in another domain now.
func TestNodesConcernTheGroupsOnThem(t *testing.T) {
	builder := indexed.NewClientBuilder(t)
	for name, key := range map[string]string{"racks": "r", "zones": "z", "unconstrained": ""} {
		sg := &trellisv1alpha1.ScalingGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
		if key != "" {
			sg.Spec.Topology = &trellisv1alpha1.ResolvedTopology{Levels: []trellisv1alpha1.ResolvedLevel{{Domain: "level", Key: key}}}
		}
		builder.WithObjects(sg)
		for _, pod := range []string{"-0", "-1"} {
			builder.WithObjects(&corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{
					Namespace: "ns", Name: name + pod, Labels: map[string]string{render.LabelGraph: "g"},
					OwnerReferences: []metav1.OwnerReference{{Kind: "ScalingGroup", Name: name, Controller: ptr.To(true)}},
				},
				Spec: corev1.PodSpec{NodeName: "n"},
			})
		}
	}
	r := &Reconciler{Client: builder.Build()}
	everyone := []string{"racks", "unconstrained", "zones"}
	for name, tc := range map[string]struct {
		change func(*corev1.Node)
		want   []string
	}{
		"another rack":  {func(n *corev1.Node) { n.Labels["r"] = "2" }, nil},
		"no zone":       {func(n *corev1.Node) { delete(n.Labels, "z") }, nil},
		"another label": {func(n *corev1.Node) { n.Labels["x"] = "2" }, nil},
		"a heartbeat":   {func(n *corev1.Node) { n.ResourceVersion = "2" }, nil},
		"not ready":     {func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionFalse }, everyone},
		"gone":          {nil, everyone},
		"cordoned":      {func(n *corev1.Node) { n.Spec.Unschedulable = true }, everyone},
		"to be removed": {func(n *corev1.Node) {
			n.Spec.Taints = []corev1.Taint{{Key: "karpenter.sh/disrupted", Effect: corev1.TaintEffectNoSchedule}}
		}, everyone},
		"another node": {func(n *corev1.Node) { n.Name, n.Labels["r"] = "m", "2" }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
			defer queue.ShutDown()
			old := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{"z": "1", "r": "1"}}}
			old.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
			if tc.change == nil {
				r.onNodes().Delete(t.Context(), event.DeleteEvent{Object: old}, queue)
			} else {
				now := old.DeepCopy()
				tc.change(now)
				r.onNodes().Update(t.Context(), event.UpdateEvent{ObjectOld: old, ObjectNew: now}, queue)
			}
			var got []string
			for queue.Len() > 0 {
				request, _ := queue.Get()
				got = append(got, request.Name)
			}
			slices.Sort(got)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("queued (-want +got):\n%s", diff)
			}
		})
	}
}
