// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scalinggroup

import (
	"context"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/controller/pace"
)

func TestCanWait(t *testing.T) {
	sg := &trellisv1alpha1.ScalingGroup{}
	sg.Spec.Replicas = 4
	sg.Status = trellisv1alpha1.ScalingGroupStatus{
		ObservedGeneration: 1, Replicas: 4, ReadyReplicas: 2, OutdatedReplicas: 1, Revision: "a",
		Conditions: []metav1.Condition{{Type: trellisv1alpha1.ConditionRolledOut, Status: metav1.ConditionTrue, Reason: "UpToDate"}},
	}
	type status = trellisv1alpha1.ScalingGroupStatus
	tests := map[string]struct {
		change func(*status)
		want   bool
	}{
		"one more is ready":      {func(s *status) { s.ReadyReplicas = 3 }, true},
		"one is bound":           {func(s *status) { s.ScheduledReplicas = 3 }, true},
		"one more is there":      {func(s *status) { s.Replicas, s.Pods = 5, 40 }, true},
		"a message":              {func(s *status) { s.Conditions[0].Message = "2 of 4" }, true},
		"the last one is ready":  {func(s *status) { s.ReadyReplicas = 4 }, false},
		"none is outdated":       {func(s *status) { s.OutdatedReplicas = 0 }, false},
		"a condition turns":      {func(s *status) { s.Conditions[0].Status = metav1.ConditionFalse }, false},
		"another generation":     {func(s *status) { s.ObservedGeneration = 2 }, false},
		"another revision":       {func(s *status) { s.Revision = "b" }, false},
		"a restart is over":      {func(s *status) { s.Restart = "r" }, false},
		"a replica failed":       {func(s *status) { s.FailedReplicas = []trellisv1alpha1.FailedReplica{{Replica: 1}} }, false},
		"ready, and a condition": {func(s *status) { s.ReadyReplicas, s.Conditions[0].Reason = 3, "Other" }, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			now := sg.Status.DeepCopy()
			tc.change(now)
			if got := canWait(sg, now); got != tc.want {
				t.Errorf("it can wait: %t, want %t", got, tc.want)
			}
		})
	}
}

// TestBeginning: the first status waits unless someone acts on it.
func TestBeginning(t *testing.T) {
	type status = trellisv1alpha1.ScalingGroupStatus
	now := status{ObservedGeneration: 1, Replicas: 4, ReadyReplicas: 3, Conditions: []metav1.Condition{
		{Type: trellisv1alpha1.ConditionPodsInSync, Status: metav1.ConditionTrue},
		{Type: trellisv1alpha1.ConditionRolledOut, Status: metav1.ConditionTrue},
	}}
	tests := map[string]struct {
		change func(before, now *status)
		want   bool
	}{
		"its pods start":      {func(_, _ *status) {}, true},
		"all serve":           {func(_, now *status) { now.ReadyReplicas = 4 }, false},
		"a pod is refused":    {func(_, now *status) { now.Conditions[0].Status = metav1.ConditionFalse }, false},
		"it has others' pods": {func(_, now *status) { now.Conditions[1].Status = metav1.ConditionFalse }, false},
		"a replica failed":    {func(_, now *status) { now.FailedReplicas = []trellisv1alpha1.FailedReplica{{Replica: 1}} }, false},
		"it has a status":     {func(before, now *status) { *before = *now }, false},
	}
	for name, tc := range tests {
		sg := &trellisv1alpha1.ScalingGroup{}
		sg.Spec.Replicas = 4
		now := now.DeepCopy()
		tc.change(&sg.Status, now)
		if got := beginning(sg, now); got != tc.want {
			t.Errorf("%s: %t, want %t", name, got, tc.want)
		}
	}
}

// A group of which pods exist that the cache does not show reports what it sees, and is requeued; so is one of a graph that is too large.
func TestWhatIsSeenIsReported(t *testing.T) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{trellisv1alpha1.AddToScheme, clientgoscheme.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	sg := group(2, 1)
	sg.Generation = 3
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(sg).WithStatusSubresource(sg).Build()
	at := time.Unix(1000, 0)
	r := &Reconciler{Client: c}
	r.written.Now = func() time.Time { return at }
	stored := sg.DeepCopy()
	for _, step := range []struct {
		steps steps
		want  time.Duration
	}{{steps{unseen: true, more: true}, firstAfter}, {steps{unseen: true}, seenBy}, {steps{overLimit: true}, seenBy}} {
		result, err := (&pass{Reconciler: r, observed: observed{sg: stored}, decision: decision{steps: step.steps}}).finish(t.Context(), nil)
		if err != nil || result.RequeueAfter != step.want {
			t.Errorf("again after %s, error %v; want %s", result.RequeueAfter, err, step.want)
		}
		at = at.Add(firstAfter)
		stored = &trellisv1alpha1.ScalingGroup{}
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(sg), stored); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(sg), stored); err != nil || stored.Status.ObservedGeneration != sg.Generation {
		t.Errorf("reported for generation %d, want %d; %v", stored.Status.ObservedGeneration, sg.Generation, err)
	}
}

// TestReportIsPaced: of changes within a second the first is written, and the last; what someone acts on is written at once.
func TestReportIsPaced(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := trellisv1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	sg := &trellisv1alpha1.ScalingGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "g", UID: "g"}}
	sg.Spec.Replicas = 4
	written := 0
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(sg).WithStatusSubresource(sg).WithInterceptorFuncs(interceptor.Funcs{
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
			written++
			return c.SubResource(sub).Patch(ctx, obj, patch, opts...)
		},
	}).Build()
	at := time.Unix(1000, 0)
	r := &Reconciler{Client: c}
	r.written.Now = func() time.Time { return at }
	report := func(ready int32, wantWritten int, wantAgain time.Duration) {
		t.Helper()
		stored := &trellisv1alpha1.ScalingGroup{}
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(sg), stored); err != nil {
			t.Fatal(err)
		}
		status := *stored.Status.DeepCopy()
		status.ObservedGeneration, status.Replicas, status.ReadyReplicas = 1, 4, ready
		again, err := r.report(t.Context(), stored, status)
		if err != nil {
			t.Fatal(err)
		}
		if written != wantWritten || again != wantAgain {
			t.Errorf("%d ready: %d writes and again in %s, want %d and %s", ready, written, again, wantWritten, wantAgain)
		}
	}
	report(0, 0, firstAfter)
	at = at.Add(firstAfter / 2)
	report(1, 0, firstAfter/2)
	at = at.Add(firstAfter / 2)
	report(1, 1, 0)
	at = at.Add(pace.Interval / 4)
	report(2, 1, pace.Interval*3/4)
	at = at.Add(pace.Interval / 4)
	report(3, 1, pace.Interval/2)
	at = at.Add(pace.Interval / 2)
	report(3, 2, 0)
	report(3, 2, 0)
	report(2, 2, pace.Interval)
	report(4, 3, 0) // all serve
}
