// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scalingadapter

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	testingclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
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
	for _, add := range []func(*runtime.Scheme) error{nvidiav1alpha1.AddToScheme, trellisv1alpha1.AddToScheme, corev1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	w := &world{T: t, events: events.NewFakeRecorder(20)}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
		WithStatusSubresource(&nvidiav1alpha1.DynamoGraphDeployment{}, &adapter{}).
		WithIndex(&adapter{}, IndexByDeployment, func(o client.Object) []string { return []string{o.(*adapter).Spec.DGDRef.Name} }).
		WithIndex(&trellisv1alpha1.ScalingGroup{}, scheduler.IndexGroupsByGraph, func(o client.Object) []string {
			return []string{string(metav1.GetControllerOf(o).UID)}
		}).
		WithInterceptorFuncs(interceptor.Funcs{
			Patch: func(ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch, opts ...client.PatchOption) error {
				w.writes = append(w.writes, "patch "+o.GetName())
				if data, err := patch.Data(o); err != nil || !strings.Contains(string(data), `"resourceVersion"`) {
					t.Errorf("a patch that would overwrite what came in between: %s (%v)", data, err)
				}
				if _, isDeployment := o.(*deployment); isDeployment && w.refuse != nil {
					return w.refuse
				}
				return c.Patch(ctx, o, patch, opts...)
			},
			Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
				w.writes = append(w.writes, "create "+o.GetName())
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
	w.Reconciler = Reconciler{Client: c, Recorder: w.events, Clock: testingclock.NewFakePassiveClock(noon)}
	return w
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

// shows compares the replicas in the deployment, by service.
func (w *world) shows(want map[string]int32) {
	w.Helper()
	dgd := &deployment{}
	w.get(dgd, "g")
	got := map[string]int32{}
	for name, spec := range dgd.Spec.Services {
		got[name] = replicas.Of(spec)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		w.Errorf("the deployment's replicas (-want +got):\n%s", diff)
	}
}

// hasAdapters compares the adapters of the namespace, "name=replicas".
func (w *world) hasAdapters(want ...string) {
	w.Helper()
	list := &nvidiav1alpha1.DynamoGraphDeploymentScalingAdapterList{}
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
	c := meta.FindStatusCondition(w.adapter(name).Status.Conditions, nvidiav1alpha1.ConditionActive)
	if c == nil || string(c.Status) != status || c.Reason != reason || !strings.Contains(c.Message, part) {
		w.Errorf("Active of %s is %+v, want %s/%s with %q", name, c, status, reason, part)
	}
}

// g has decode and prefill, both handed over, and a frontend that is not.
func g() *deployment {
	dgd := &deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "g", UID: "g-1"}}
	on := &nvidiav1alpha1.ScalingAdapter{Enabled: true}
	dgd.Spec.Services = map[string]*nvidiav1alpha1.ServiceSpec{
		"Decode":   {Replicas: ptr.To[int32](2), ScalingAdapter: on},
		"prefill":  {ScalingAdapter: on.DeepCopy()},
		"Frontend": {Replicas: ptr.To[int32](3), ScalingAdapter: &nvidiav1alpha1.ScalingAdapter{}},
	}
	return dgd
}

func group(service string, replicas int32, multinode bool) *trellisv1alpha1.ScalingGroup {
	sg := &trellisv1alpha1.ScalingGroup{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "g-" + strings.ToLower(service), OwnerReferences: []metav1.OwnerReference{ownerReference(g())}},
		Spec:       trellisv1alpha1.ScalingGroupSpec{Graph: "g", Service: service, Multinode: multinode},
	}
	sg.Status.Replicas = replicas
	return sg
}

func TestAdaptersFollowTheDeployment(t *testing.T) {
	w := newWorld(t, g(), group("Decode", 2, true), group("prefill", 1, false))

	t.Log("one adapter for each service that asks for one, with the service's replicas; a bare scalingAdapter asks for none")
	w.settle()
	w.hasAdapters("g-decode=2", "g-prefill=1")
	a := w.adapter("g-decode")
	if !metav1.IsControlledBy(a, g()) || a.Spec.DGDRef != (nvidiav1alpha1.ScaledService{Name: "g", ServiceName: "Decode"}) {
		t.Errorf("g-decode is %+v", a)
	}
	w.active("g-decode", "True", "OwnsReplicas", "spec.services[Decode].replicas")

	t.Log("an autoscaler finds one pod per replica: of a multinode replica the leader")
	if want := "nvidia.com/dynamo-graph-deployment-name=g,trellis.dev/pod-index=0,trellis.dev/scaling-group=g-decode"; a.Status.Selector != want || a.Status.Replicas != 2 {
		t.Errorf("status = %+v, want 2 replicas and selector %s", a.Status, want)
	}
	if want, got := "nvidia.com/dynamo-graph-deployment-name=g,trellis.dev/scaling-group=g-prefill", w.adapter("g-prefill").Status.Selector; got != want {
		t.Errorf("selector = %s, want %s", got, want)
	}

	t.Log("one is deleted by hand: it comes back with the number of today")
	w.scale("g-decode", 6)
	w.settle()
	if err := w.Client.Delete(t.Context(), w.adapter("g-decode")); err != nil {
		t.Fatal(err)
	}
	w.settle()
	w.hasAdapters("g-decode=6", "g-prefill=1")

	t.Log("switched off: the adapter goes, its last number stays")
	w.edit(func(dgd *deployment) { dgd.Spec.Services["Decode"].ScalingAdapter = nil })
	w.settle()
	w.hasAdapters("g-prefill=1")
	w.shows(map[string]int32{"Decode": 6, "prefill": 1, "Frontend": 3})

	t.Log("the deployment owns the number again; switched on once more, the adapter begins with it")
	w.edit(func(dgd *deployment) {
		dgd.Spec.Services["Decode"].Replicas = ptr.To[int32](4)
		dgd.Spec.Services["Decode"].ScalingAdapter = &nvidiav1alpha1.ScalingAdapter{Enabled: true}
	})
	w.settle()
	w.hasAdapters("g-decode=4", "g-prefill=1")
}

func TestNumbersAreCarried(t *testing.T) {
	w := newWorld(t, g())
	w.settle()

	t.Log("a burst on two adapters is one write of the deployment")
	for n := range int32(50) {
		w.scale("g-decode", n)
		w.scale("g-prefill", 50-n)
	}
	w.writes = nil
	w.reconcile()
	slices.Sort(w.writes)
	if diff := cmp.Diff([]string{"patch g", "status g-decode"}, w.writes); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	w.shows(map[string]int32{"Decode": 49, "prefill": 1, "Frontend": 3})
	if at := w.adapter("g-decode").Status.LastScaleTime; at == nil || !at.Time.Equal(noon) {
		t.Errorf("lastScaleTime = %v, want noon", at)
	}
	if at := w.adapter("g-prefill").Status.LastScaleTime; at != nil {
		t.Errorf("lastScaleTime of the adapter that ended where it began = %v, want none", at)
	}
	w.settle()

	t.Log("to zero and back")
	for _, n := range []int32{0, 3} {
		w.scale("g-decode", n)
		w.settle()
		w.shows(map[string]int32{"Decode": n, "prefill": 1, "Frontend": 3})
	}

	t.Log("the deployment is overwritten, no webhook being there: the adapter's number comes back, the other service's edit stays")
	w.edit(func(dgd *deployment) {
		dgd.Spec.Services["Decode"].Replicas, dgd.Spec.Services["Frontend"].Replicas = ptr.To[int32](9), ptr.To[int32](9)
	})
	w.settle()
	w.shows(map[string]int32{"Decode": 3, "prefill": 1, "Frontend": 9})
}

func TestNumberIsNotCarriedOverANewerDeployment(t *testing.T) {
	w := newWorld(t, g())
	w.settle()
	w.scale("g-decode", 5)
	w.refuse = apierrors.NewConflict(nvidiav1alpha1.GroupVersion.WithResource("x").GroupResource(), "g", errors.New("changed"))
	w.reconcile()
	w.shows(map[string]int32{"Decode": 2, "prefill": 1, "Frontend": 3})
	w.active("g-decode", "True", "OwnsReplicas", "")
	if at := w.adapter("g-decode").Status.LastScaleTime; at != nil {
		t.Errorf("lastScaleTime = %v though nothing was scaled", at)
	}
	w.refuse = nil
	w.settle()
	w.shows(map[string]int32{"Decode": 5, "prefill": 1, "Frontend": 3})
}

func TestRefusedNumbersAreReported(t *testing.T) {
	dgd := g()
	dgd.Spec.Services["Decode"].ComponentType, dgd.Spec.Services["Decode"].Replicas = nvidiav1alpha1.ComponentTypeEPP, ptr.To[int32](1)
	w := newWorld(t, dgd)
	w.settle()

	t.Log("a number that the service may not have")
	w.scale("g-decode", 3)
	w.settle()
	w.active("g-decode", "False", "ReplicasRefused", "the service keeps 1 replicas: 3 are refused")
	w.shows(map[string]int32{"Decode": 1, "prefill": 1, "Frontend": 3})

	t.Log("one that the cluster's own admission refuses: it is tried again, and said")
	w.refuse = apierrors.NewForbidden(nvidiav1alpha1.GroupVersion.WithResource("x").GroupResource(), "g", errors.New("at most 4 replicas here"))
	w.scale("g-prefill", 8)
	if _, err := w.Reconcile(t.Context(), request); err == nil {
		t.Error("no error, so it is not tried again")
	}
	w.active("g-prefill", "False", "ReplicasRefused", "at most 4 replicas here")
	close(w.events.Events)
	if got := strings.Join(slices.Collect(drain(w.events.Events)), "\n"); strings.Count(got, "Warning ReplicasRefused") != 2 {
		t.Errorf("events:\n%s\nwant one for each adapter", got)
	}
}

func drain(c <-chan string) func(func(string) bool) {
	return func(yield func(string) bool) {
		for e := range c {
			if !yield(e) {
				return
			}
		}
	}
}

func TestAdaptersOfOthers(t *testing.T) {
	named := func(name, dgd, service string, owner *metav1.OwnerReference) *adapter {
		a := &adapter{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name}}
		a.Spec = nvidiav1alpha1.DynamoGraphDeploymentScalingAdapterSpec{Replicas: 7, DGDRef: nvidiav1alpha1.ScaledService{Name: dgd, ServiceName: service}}
		if owner != nil {
			a.OwnerReferences = []metav1.OwnerReference{*owner}
		}
		return a
	}
	earlier := ownerReference(g())
	earlier.UID = "g-0"

	cases := map[string]struct {
		there         *adapter
		status, words string
		adapters      []string
		decode        int32
	}{
		"written by hand under the right name: taken over, with its number": {
			named("g-decode", "g", "Decode", nil), "True", "follows this adapter", []string{"g-decode=7", "g-prefill=1"}, 7,
		},
		"written by hand under another name": {
			named("mine", "g", "Decode", nil), "False", `the service follows adapter "g-decode"`, []string{"g-decode=2", "g-prefill=1", "mine=7"}, 2,
		},
		"for a service that asks for none": {
			named("g-frontend", "g", "Frontend", nil), "False", "spec.services[Frontend].scalingAdapter.enabled", []string{"g-decode=2", "g-frontend=7", "g-prefill=1"}, 2,
		},
		"for a service that does not exist": {
			named("g-x", "g", "x", nil), "False", `no service "x"`, []string{"g-decode=2", "g-prefill=1", "g-x=7"}, 2,
		},
		"of an earlier deployment of this name, not yet deleted": {
			named("g-decode", "g", "Decode", &earlier), "False", "UID g-0", []string{"g-decode=7", "g-prefill=1"}, 2,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, g(), c.there)
			w.settle()
			w.hasAdapters(c.adapters...)
			reason := map[string]string{"True": "OwnsReplicas", "False": "NotInUse"}[c.status]
			w.active(c.there.Name, c.status, reason, c.words)
			w.shows(map[string]int32{"Decode": c.decode, "prefill": 1, "Frontend": 3})
		})
	}

	t.Run("for a deployment that does not exist", func(t *testing.T) {
		w := newWorld(t, named("g-decode", "g", "Decode", nil))
		w.settle()
		w.active("g-decode", "False", "NotInUse", `no DynamoGraphDeployment "g"`)
	})

	t.Run("two deployments whose adapters have one name", func(t *testing.T) {
		other := named("g-decode", "g-de", "code", nil)
		w := newWorld(t, g(), other)
		w.settle()
		w.hasAdapters("g-decode=7", "g-prefill=1")
		w.shows(map[string]int32{"Decode": 2, "prefill": 1, "Frontend": 3})
	})
}

func TestRequestsReachTheDeployment(t *testing.T) {
	a := newAdapter(g(), "Decode", 1)
	if got := DeploymentOf(t.Context(), a); len(got) != 1 || got[0] != request {
		t.Errorf("got %v, want %v", got, request)
	}
	if got := slices.Sorted(maps.Keys(a.Labels)); len(got) != 2 {
		t.Errorf("labels %v", got)
	}
}
