// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scalingadapter

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/tools/events"
	testingclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/replicas"
	"github.com/trellis-k8s/trellis/internal/scheduler"
)

var (
	request = ctrl.Request{NamespacedName: types.NamespacedName{Namespace: "team", Name: "g"}}
	noon    = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
)

// world is a cluster in memory with the reconciler on it. It counts what is written to it.
type world struct {
	*testing.T
	Reconciler
	events *events.FakeRecorder
	writes []string
	refuse error
}

func newWorld(t *testing.T, objects ...client.Object) *world {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{nvidiav1beta1.AddToScheme, trellisv1alpha1.AddToScheme, corev1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	w := &world{T: t, events: events.NewFakeRecorder(20)}
	for _, o := range objects {
		identify(o)
	}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
		WithStatusSubresource(&nvidiav1beta1.DynamoGraphDeployment{}, &adapter{}).
		WithIndex(&adapter{}, IndexByDeployment, func(o client.Object) []string { return []string{o.(*adapter).Spec.DGDRef.Name} }).
		WithIndex(&trellisv1alpha1.ScalingGroup{}, scheduler.IndexGroupsByGraph, func(o client.Object) []string {
			return []string{string(metav1.GetControllerOf(o).UID)}
		}).
		WithInterceptorFuncs(interceptor.Funcs{
			Patch: func(ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch, opts ...client.PatchOption) error {
				w.writes = append(w.writes, "patch "+o.GetName())
				if data, err := patch.Data(o); err != nil || !strings.Contains(string(data), `resourceVersion"`) || strings.Contains(string(data), `resourceVersion","value":""`) {
					t.Errorf("a patch that would overwrite what came in between: %s (%v)", data, err)
				}
				if _, isDeployment := o.(*deployment); isDeployment && w.refuse != nil {
					return w.refuse
				}
				return c.Patch(ctx, o, patch, opts...)
			},
			Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
				w.writes = append(w.writes, "create "+o.GetName())
				identify(o)
				return c.Create(ctx, o, opts...)
			},
			Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
				w.writes = append(w.writes, "delete "+o.GetName())
				return c.Delete(ctx, o, opts...)
			},
			SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
				w.writes = append(w.writes, sub+" "+o.GetName())
				return c.SubResource(sub).Patch(ctx, o, patch, opts...)
			},
		}).Build()
	w.Reconciler = Reconciler{Client: c, Live: c, Recorder: w.events, Clock: testingclock.NewFakePassiveClock(noon)}
	return w
}

// identify gives an adapter a UID, as the API server does.
func identify(o client.Object) {
	if a, is := o.(*adapter); is && a.UID == "" {
		a.UID = uuid.NewUUID()
	}
}

func (w *world) reconcile() {
	w.Helper()
	if _, err := w.Reconcile(w.Context(), request); err != nil {
		w.Fatal(err)
	}
}

// settle reconciles until there is nothing left to write.
func (w *world) settle() {
	w.Helper()
	for range 5 {
		w.writes = nil
		w.reconcile()
		if len(w.writes) == 0 {
			return
		}
	}
	w.Fatalf("still writing: %v", w.writes)
}

func (w *world) get(o client.Object, name string) {
	w.Helper()
	if err := w.Client.Get(w.Context(), client.ObjectKey{Namespace: "team", Name: name}, o); err != nil {
		w.Fatal(err)
	}
}

func (w *world) adapter(name string) *adapter {
	w.Helper()
	a := &adapter{}
	w.get(a, name)
	return a
}

// scale does what the scale subresource does.
func (w *world) scale(name string, n int32) {
	w.Helper()
	a := w.adapter(name)
	a.Spec.Replicas = n
	if err := w.Client.Update(w.Context(), a); err != nil {
		w.Fatal(err)
	}
}

// edit changes the deployment as a user would while there is no webhook.
func (w *world) edit(change func(*deployment)) {
	w.Helper()
	dgd := &deployment{}
	w.get(dgd, "g")
	change(dgd)
	if err := w.Client.Update(w.Context(), dgd); err != nil {
		w.Fatal(err)
	}
}

// shows compares the replicas in the deployment, by component.
func (w *world) shows(want map[string]int32) {
	w.Helper()
	dgd := &deployment{}
	w.get(dgd, "g")
	got := map[string]int32{}
	for i := range dgd.Spec.Components {
		got[dgd.Spec.Components[i].Name] = replicas.Of(&dgd.Spec.Components[i])
	}
	if diff := cmp.Diff(want, got); diff != "" {
		w.Errorf("the deployment's replicas (-want +got):\n%s", diff)
	}
}

// hasAdapters compares the adapters of the namespace, "name=replicas".
func (w *world) hasAdapters(want ...string) {
	w.Helper()
	list := &nvidiav1beta1.DynamoGraphDeploymentScalingAdapterList{}
	if err := w.Client.List(w.Context(), list); err != nil {
		w.Fatal(err)
	}
	got := []string{}
	for i := range list.Items {
		got = append(got, fmt.Sprintf("%s=%d", list.Items[i].Name, list.Items[i].Spec.Replicas))
	}
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		w.Errorf("adapters (-want +got):\n%s", diff)
	}
}

func (w *world) active(name, status, reason, part string) {
	w.Helper()
	c := meta.FindStatusCondition(w.adapter(name).Status.Conditions, nvidiav1beta1.ConditionActive)
	if c == nil || string(c.Status) != status || c.Reason != reason || !strings.Contains(c.Message, part) {
		w.Errorf("Active of %s is %+v, want %s/%s with %q", name, c, status, reason, part)
	}
}

// g has decode and prefill, both with an adapter, and a frontend without.
func g() *deployment {
	dgd := &deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "g", UID: "g-1"}}
	on := &nvidiav1beta1.ScalingAdapter{}
	dgd.Spec.Components = []nvidiav1beta1.ComponentSpec{
		{Name: "Decode", Replicas: ptr.To[int32](2), ScalingAdapter: on},
		{Name: "prefill", ScalingAdapter: on.DeepCopy()},
		{Name: "Frontend", Replicas: ptr.To[int32](3)},
	}
	return dgd
}

func group(component string, replicas int32, multinode bool) *trellisv1alpha1.ScalingGroup {
	sg := &trellisv1alpha1.ScalingGroup{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "g-" + strings.ToLower(component), OwnerReferences: []metav1.OwnerReference{ownerReference(g())}},
		Spec:       trellisv1alpha1.ScalingGroupSpec{Graph: "g", Component: component, Multinode: multinode},
	}
	sg.Status.Replicas = replicas
	return sg
}
