// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package dynamographdeployment

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/test/testutil/indexed"
)

// A change of a node's labels concerns the deployments whose provider has made pods there, when it changes their domain.
func TestNodeRelabelled(t *testing.T) {
	builder := indexed.NewClientBuilder(t)
	for name, owner := range map[string]string{"grove": "PodClique", "own": "ScalingGroup"} {
		sg := &trellisv1alpha1.ScalingGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name + "-work"}}
		sg.Spec.Graph = name
		sg.Spec.Topology = &trellisv1alpha1.ResolvedTopology{Levels: []trellisv1alpha1.ResolvedLevel{{Domain: "rack", Key: "r"}}}
		builder.WithObjects(sg, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "ns", Name: name, Labels: map[string]string{render.LabelGraph: name, render.LabelScalingGroup: sg.Name},
				OwnerReferences: []metav1.OwnerReference{{Kind: owner, Name: sg.Name, Controller: new(true)}},
			},
			Spec: corev1.PodSpec{NodeName: "n"},
		})
	}
	r := &Reconciler{Client: builder.Build()}
	for name, tc := range map[string]struct {
		node   string
		labels map[string]string
		want   []string
	}{
		"another rack":        {"n", map[string]string{"r": "2"}, []string{"ns/grove"}},
		"no rack":             {"n", nil, []string{"ns/grove"}},
		"another label":       {"n", map[string]string{"r": "1", "other": "x"}, nil},
		"a node without pods": {"m", map[string]string{"r": "2"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
			defer queue.ShutDown()
			old := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: tc.node, Labels: map[string]string{"r": "1"}}}
			now := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: tc.node, Labels: tc.labels}}
			r.nodeRelabelled(t.Context(), event.UpdateEvent{ObjectOld: old, ObjectNew: now}, queue)
			var got []string
			for queue.Len() > 0 {
				request, _ := queue.Get()
				got = append(got, request.NamespacedName.String())
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("queued (-want +got):\n%s", diff)
			}
		})
	}
}
