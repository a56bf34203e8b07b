// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/provider"
	"github.com/trellis-k8s/trellis/internal/quota"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/scheduler"
	"github.com/trellis-k8s/trellis/test/testutil/gangtest"
)

// stray is a cluster with a deployment g without a queue, and a pod of it that Kueue has put into the default queue.
func stray(t *testing.T) (client.WithWatch, *nvidiav1beta1.DynamoGraphDeployment, *corev1.Pod) {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{nvidiav1beta1.AddToScheme, trellisv1alpha1.AddToScheme, corev1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	dgd := &nvidiav1beta1.DynamoGraphDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "g", UID: "g-uid"}}
	sg := gangtest.Group("work", 1, 2, gangtest.Frozen("zone", ""))
	sg.Namespace = "ns"
	sg.OwnerReferences = []metav1.OwnerReference{{Kind: "DynamoGraphDeployment", Name: "g", UID: dgd.UID, Controller: ptr.To(true)}}
	pod := gangtest.Pod(sg, 0, 0)
	pod.Namespace = "ns"
	pod.Labels[render.LabelKueueQueue], pod.Labels["kueue.x-k8s.io/managed"] = "default", "true"
	pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: quota.Gate}}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(dgd, sg, pod).
		WithIndex(&trellisv1alpha1.ScalingGroup{}, scheduler.IndexGroupsByGraph, func(o client.Object) []string {
			return []string{string(metav1.GetControllerOf(o).UID)}
		}).
		WithIndex(&corev1.Pod{}, scheduler.IndexPodsByGraph, func(o client.Object) []string { return []string{o.GetLabels()[render.LabelGraph]} }).
		Build()
	return c, dgd, pod
}

// A deployment of which Kueue has put a pod into the default queue of its namespace is in that queue, where the operator can ask Kueue for
// quota.
func TestJoinsTheDefaultQueue(t *testing.T) {
	for name, tc := range map[string]struct {
		readable bool
		label    string
		changed  bool
		want     string
		events   int
	}{
		"it names none":                {readable: true, want: "default", events: 1},
		"it names another":             {readable: true, label: "q", want: "q"},
		"the operator has no rights":   {want: ""},
		"a user has changed it, again": {readable: true, changed: true, want: ""},
	} {
		t.Run(name, func(t *testing.T) {
			c, dgd, pod := stray(t)
			if tc.label != "" {
				dgd.Labels = map[string]string{render.LabelKueueQueue: tc.label}
				if err := c.Update(t.Context(), dgd); err != nil {
					t.Fatal(err)
				}
			}
			stale := interceptor.NewClient(c, interceptor.Funcs{
				Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
					err := c.Get(ctx, key, o, options...)
					if tc.changed {
						o.SetResourceVersion("1")
					}
					return err
				},
			})
			recorder := events.NewFakeRecorder(2)
			kueue := inState{}
			if tc.readable {
				kueue = inState{state: provider.Ready(), own: c}
			}
			r := &Reconciler{Client: stale, Recorder: recorder, Providers: kueue}
			requests := r.deploymentOf(t.Context(), pod)
			if len(requests) != 1 {
				t.Fatalf("a pod in a queue brings %d deployments", len(requests))
			}
			for range 2 {
				if _, err := r.join(t.Context(), read(t, stale, requests[0])); err != nil {
					t.Fatal(err)
				}
			}
			if got := read(t, c, requests[0]).Labels[render.LabelKueueQueue]; got != tc.want || len(recorder.Events) != tc.events {
				t.Errorf("it is in queue %q, want %q; %d events", got, tc.want, len(recorder.Events))
			}
		})
	}
}

func read(t *testing.T, c client.Reader, request ctrl.Request) *nvidiav1beta1.DynamoGraphDeployment {
	t.Helper()
	dgd := &nvidiav1beta1.DynamoGraphDeployment{}
	if err := c.Get(t.Context(), request.NamespacedName, dgd); err != nil {
		t.Fatal(err)
	}
	return dgd
}
