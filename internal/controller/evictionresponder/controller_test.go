// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package evictionresponder

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	lifecyclev1alpha1 "k8s.io/api/lifecycle/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/evictions"
	"github.com/trellis-k8s/trellis/internal/leaving"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
	"github.com/trellis-k8s/trellis/internal/render"
)

// world is a deployment with one replica of one pod, which serves, and an Eviction of the pod.
type world struct {
	*testing.T
	Reconciler
	clock    *clocktesting.FakePassiveClock
	pod      *corev1.Pod
	eviction *lifecyclev1alpha1.Eviction
}

func newWorld(t *testing.T, state lifecyclev1alpha1.ResponderStateType, change func(*corev1.Pod, *trellisv1alpha1.ScalingGroup)) *world {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, nvidiav1beta1.AddToScheme, trellisv1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	dgd := &nvidiav1beta1.DynamoGraphDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "llm", UID: "dgd"}}
	group := &trellisv1alpha1.ScalingGroup{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "llm-worker", UID: "group"},
		Spec: trellisv1alpha1.ScalingGroupSpec{
			Graph: "llm", Component: "Worker", Provider: specs.Gates.Name, Replicas: 1, Revision: "1",
			Roles: []trellisv1alpha1.Role{{Name: "main", Count: 1}},
		},
	}
	group.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(dgd, nvidiav1beta1.GroupVersion.WithKind("DynamoGraphDeployment"))}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "llm-worker-0", UID: "pod", Labels: map[string]string{
			render.LabelScalingGroup: "llm-worker", render.LabelReplica: "0", render.LabelPodIndex: "0", render.LabelReplicaSize: "1",
		}},
		Spec:   corev1.PodSpec{NodeName: "n", Containers: []corev1.Container{{Name: "main", Image: "example.com/x:1"}}},
		Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
	}
	pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(group, trellisv1alpha1.GroupVersion.WithKind("ScalingGroup"))}
	if change != nil {
		change(pod, group)
	}
	eviction := &lifecyclev1alpha1.Eviction{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "e"},
		Spec: lifecyclev1alpha1.EvictionSpec{Target: lifecyclev1alpha1.EvictionTarget{
			Pod: &lifecyclev1alpha1.EvictionPodReference{Name: "llm-worker-0", UID: "pod"},
		}},
		Status: lifecyclev1alpha1.EvictionStatus{
			TargetResponders: []lifecyclev1alpha1.TargetResponder{
				{Name: "example.com/first", Priority: ptr.To[int32](20000), State: lifecyclev1alpha1.ResponderStateCompleted},
				{Name: evictions.Responder, Priority: ptr.To[int32](10000), State: state},
			},
			Responders: []lifecyclev1alpha1.ResponderStatus{{Name: "example.com/first"}, {Name: evictions.Responder}},
		},
	}
	if state == lifecyclev1alpha1.ResponderStateCanceled {
		eviction.Status.Responders[1].StartTime = ptr.To(metav1.NewTime(noon))
	}
	c := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(eviction).
		WithObjects(dgd, group, pod, eviction, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}).Build()
	now := clocktesting.NewFakePassiveClock(noon)
	return &world{t, Reconciler{c, evictions.Requests{Cached: c, Writer: c}, now}, now, pod, eviction}
}

var noon = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// reconcile returns the message, the number of seconds since the last heartbeat, and whether the responder has completed.
func (w *world) reconcile() (message string, since int, completed bool) {
	w.Helper()
	if _, err := w.Reconcile(w.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(w.eviction)}); err != nil {
		w.Fatal(err)
	}
	if err := w.Client.Get(w.Context(), client.ObjectKeyFromObject(w.eviction), w.eviction); err != nil {
		w.Fatal(err)
	}
	if other := w.eviction.Status.Responders[0]; other.HeartbeatTime != nil || other.Message != nil {
		w.Errorf("the entry of another responder: %+v", other)
	}
	status := w.eviction.Status.Responders[1]
	if status.HeartbeatTime == nil {
		return ptr.Deref(status.Message, ""), -1, false
	}
	return ptr.Deref(status.Message, ""), int(w.clock.Now().Sub(status.HeartbeatTime.Time).Seconds()), status.CompletionTime != nil
}

// request returns the annotation of the pod.
func (w *world) request() string {
	w.Helper()
	pod := &corev1.Pod{}
	if err := w.Client.Get(w.Context(), client.ObjectKeyFromObject(w.pod), pod); err != nil {
		w.Fatal(err)
	}
	return pod.Annotations[leaving.AnnotationEviction]
}

func TestStates(t *testing.T) {
	const serves = "moving Worker-0: its successor is to be created"
	requested := func(e leaving.Eviction) func(*corev1.Pod, *trellisv1alpha1.ScalingGroup) {
		return func(pod *corev1.Pod, _ *trellisv1alpha1.ScalingGroup) {
			pod.Annotations = map[string]string{leaving.AnnotationEviction: e.String()}
		}
	}
	for name, c := range map[string]struct {
		state     lifecyclev1alpha1.ResponderStateType
		change    func(*corev1.Pod, *trellisv1alpha1.ScalingGroup)
		message   string
		completed bool
		requested bool
	}{
		"active":    {state: lifecyclev1alpha1.ResponderStateActive, message: serves, requested: true},
		"inactive":  {state: lifecyclev1alpha1.ResponderStateInactive},
		"completed": {state: lifecyclev1alpha1.ResponderStateCompleted},
		"canceled before": {
			state: lifecyclev1alpha1.ResponderStateCanceled,
		},
		"canceled": {state: lifecyclev1alpha1.ResponderStateCanceled, change: requested(leaving.Eviction{At: noon})},
		"canceled while the replica frees a place": {
			state: lifecyclev1alpha1.ResponderStateCanceled, change: requested(leaving.Eviction{At: noon, For: "ns/other"}), requested: true,
		},
		"canceled before another client requests an eviction": {
			state: lifecyclev1alpha1.ResponderStateCanceled, change: requested(leaving.Eviction{At: noon.Add(time.Minute)}), requested: true,
		},
		"does not serve": {
			state: lifecyclev1alpha1.ResponderStateActive, message: "Worker-0 does not serve, so its pods can be evicted", completed: true,
			change: func(pod *corev1.Pod, _ *trellisv1alpha1.ScalingGroup) { pod.Status.Conditions = nil },
		},
		"never moves": {
			state: lifecyclev1alpha1.ResponderStateActive, message: "the pod is gone or is being deleted, or its replica does not move", completed: true,
			change: func(_ *corev1.Pod, sg *trellisv1alpha1.ScalingGroup) { sg.Spec.Moves = trellisv1alpha1.MovesNever },
		},
		"another pod of the name": {
			state: lifecyclev1alpha1.ResponderStateActive, message: "the pod is gone or is being deleted, or its replica does not move", completed: true,
			change: func(pod *corev1.Pod, _ *trellisv1alpha1.ScalingGroup) { pod.UID = "another" },
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, c.state, c.change)
			message, _, completed := w.reconcile()
			got := []any{message, completed, w.request() != ""}
			if diff := cmp.Diff([]any{c.message, c.completed, c.requested}, got); diff != "" {
				t.Errorf("message, completed, requested (-want +got):\n%s", diff)
			}
		})
	}
}

func TestHeartbeats(t *testing.T) {
	w := newWorld(t, lifecyclev1alpha1.ResponderStateActive, nil)
	var got []int
	for range 4 {
		_, since, _ := w.reconcile()
		got = append(got, since)
		w.clock.SetTime(w.clock.Now().Add(heartbeat / 2))
	}
	if diff := cmp.Diff([]int{0, 10, 0, 10}, got); diff != "" {
		t.Errorf("seconds since the last heartbeat (-want +got):\n%s", diff)
	}
	if err := w.Client.Delete(t.Context(), w.pod); err != nil {
		t.Fatal(err)
	}
	if _, since, completed := w.reconcile(); since != 0 || !completed {
		t.Errorf("after the end of the pod: completed %t, %d seconds after the last heartbeat", completed, since)
	}
}

func TestRegister(t *testing.T) {
	of := func(spec corev1.PodSpec) []string {
		pod := &corev1.Pod{Spec: spec}
		evictions.Register(pod)
		evictions.Register(pod)
		var names []string
		for _, r := range pod.Spec.EvictionResponders {
			names = append(names, r.Name)
		}
		return names
	}
	users := []corev1.EvictionResponder{{Name: "example.com/first", Priority: ptr.To[int32](20000)}}
	if diff := cmp.Diff([]string{"example.com/first", evictions.Responder}, of(corev1.PodSpec{EvictionResponders: users})); diff != "" {
		t.Error(diff)
	}
	if names := of(corev1.PodSpec{SchedulingGroup: &corev1.PodSchedulingGroup{PodGroupName: ptr.To("g")}}); len(names) > 0 {
		t.Errorf("a pod of a PodGroup names %q", names)
	}
}
