// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package nodelabels

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/render"
)

// TestLabelsAreCopied: what a bound pod asks for and does not have.
func TestLabelsAreCopied(t *testing.T) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, grovev1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	byKey, byTopology := map[string]string{render.AnnotationTopologyLabelKey: "example.com/rack"}, map[string]string{render.AnnotationTopologyName: "gb200"}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: map[string]string{"zone": "a", "example.com/rack": "r1"}}}
	topology := &grovev1alpha1.ClusterTopology{ObjectMeta: metav1.ObjectMeta{Name: "gb200"}, Spec: grovev1alpha1.ClusterTopologySpec{
		Levels: []grovev1alpha1.TopologyLevel{{Domain: "zone", Key: "zone"}, {Domain: "rack", Key: "example.com/rack"}, {Domain: "host", Key: "absent"}},
	}}
	for name, c := range map[string]struct {
		node        string
		annotations map[string]string
		labels      map[string]string
		want        map[string]string
	}{
		"by key":                      {"n1", byKey, nil, map[string]string{"example.com/rack": "r1"}},
		"by topology":                 {"n1", byTopology, nil, map[string]string{"nvidia.com/dynamo-topology.zone": "a", "nvidia.com/dynamo-topology.rack": "r1"}},
		"what the pins gave stays":    {"n1", byTopology, map[string]string{"nvidia.com/dynamo-topology.zone": "b"}, map[string]string{"nvidia.com/dynamo-topology.zone": "b", "nvidia.com/dynamo-topology.rack": "r1"}},
		"not bound":                   {"", byKey, nil, nil},
		"asks for nothing":            {"n1", nil, nil, nil},
		"a topology that is not here": {"n1", map[string]string{render.AnnotationTopologyName: "other"}, nil, nil},
		"a node that is gone":         {"n2", byKey, nil, nil},
		"a label that the node lacks": {"n1", map[string]string{render.AnnotationTopologyLabelKey: "absent"}, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "1", Annotations: c.annotations, Labels: c.labels},
				Spec:       corev1.PodSpec{NodeName: c.node},
			}
			r := &Reconciler{Client: fake.NewClientBuilder().WithScheme(scheme).WithObjects(pod, node, topology).Build()}
			if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(pod)}); err != nil {
				t.Fatal(err)
			}
			if err := r.Client.Get(t.Context(), client.ObjectKeyFromObject(pod), pod); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, pod.Labels); diff != "" {
				t.Errorf("labels (-want +got):\n%s", diff)
			}
		})
	}
}
