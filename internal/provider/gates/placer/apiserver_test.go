// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package placer

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1apply "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/graph"
	"github.com/trellis-k8s/trellis/test/testutil/apiserver"
)

// A release adds its own entry to the managed fields of a pod and keeps the entries of everybody else, on a real API server.
func TestReleaseKeepsManagedFields(t *testing.T) {
	api := apiserver.Start(t, &envtest.Environment{})
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p"}, Spec: corev1.PodSpec{
		SchedulingGates: []corev1.PodSchedulingGate{{Name: graph.PlacementGate}, {Name: "example.com/quota"}},
		Containers:      []corev1.Container{{Name: "main", Image: "example.com/x:1"}},
	}}
	if err := api.Create(t.Context(), pod, client.FieldOwner("creator")); err != nil {
		t.Fatal(err)
	}
	labelled := corev1apply.Pod(pod.Name, pod.Namespace).WithLabels(map[string]string{"team": "a"})
	if err := api.Apply(t.Context(), labelled, client.FieldOwner("somebody")); err != nil {
		t.Fatal(err)
	}
	if err := api.Get(t.Context(), client.ObjectKeyFromObject(pod), pod); err != nil {
		t.Fatal(err)
	}
	pin := gang.Pin{Gang: "g-1", Labels: map[string]string{"rack-key": "r0"}}
	placer := Placer{Client: client.WithFieldOwner(api, "release"), Live: api}
	if err := placer.Release(t.Context(), pod, pin); err != nil {
		t.Fatal(err)
	}
	if err := api.Get(t.Context(), client.ObjectKeyFromObject(pod), pod); err != nil {
		t.Fatal(err)
	}
	var managers []string
	for _, entry := range pod.ManagedFields {
		managers = append(managers, entry.Manager)
	}
	slices.Sort(managers)
	if diff := cmp.Diff([]string{"creator", "release", "somebody"}, managers); diff != "" {
		t.Errorf("managers of the released pod (-want +got):\n%s", diff)
	}
	if graph.GateClosed(pod) || pod.Spec.NodeSelector["rack-key"] != "r0" {
		t.Errorf("not released: gates %v, selector %v", pod.Spec.SchedulingGates, pod.Spec.NodeSelector)
	}
}
