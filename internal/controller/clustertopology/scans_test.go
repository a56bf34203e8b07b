// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package clustertopology

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
)

// Nodes are read again when one of them, or the topology, has changed, and not when a deployment comes or goes.
func TestScans(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := grovev1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	lists := 0
	api := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			lists++
			return c.List(ctx, list, opts...)
		},
	}).Build()
	r := &Reconciler{Client: fake.NewClientBuilder().WithScheme(scheme).Build()}
	node := func(name, rack string) {
		t.Helper()
		if err := api.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"rack": rack}}}); err != nil {
			t.Fatal(err)
		}
		r.nodeEvent(t.Context(), &corev1.Node{})
	}
	ct := &grovev1alpha1.ClusterTopology{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "1", Generation: 1}}
	ct.Spec.Levels = []grovev1alpha1.TopologyLevel{{Domain: "rack", Key: "rack"}}
	other := ct.DeepCopy()
	other.UID = "2"
	look := func(ct *grovev1alpha1.ClusterTopology, what string, domains, read int) {
		t.Helper()
		scan, err := r.scans.of(t.Context(), ct, api)
		if err != nil {
			t.Fatal(err)
		}
		if got := scan.Levels[0].Domains; got != domains || lists != read {
			t.Errorf("%s: %d racks after %d lists of nodes, want %d after %d", what, got, lists, domains, read)
		}
	}
	node("n1", "r1")
	look(ct, "first", 1, 1)
	look(ct, "a deployment came", 1, 1)
	node("n2", "r2")
	look(ct, "a node came", 2, 2)
	look(other, "another topology", 2, 3)
	look(ct, "a deployment went", 2, 3)
	ct.Generation, ct.Spec.NodeSelector = 2, map[string]string{"rack": "r1"}
	look(ct, "its pool is another one", 1, 4)
	look(other, "that is nothing to the other one", 2, 4)
	if err := api.Delete(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n2"}}); err != nil {
		t.Fatal(err)
	}
	r.nodeEvent(t.Context(), &corev1.Node{})
	look(other, "a node went", 1, 5)
	if len(r.scans.known) != 1 {
		t.Errorf("%d scans are kept, want the new one", len(r.scans.known))
	}
}
