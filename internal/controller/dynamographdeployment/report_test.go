// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package dynamographdeployment

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/controller/pace"
)

// That provider and levels are there from the start is no news; that they are back is, and so is a place, however soon it is found.
func TestEventForWhatTurnsTrue(t *testing.T) {
	cases := []struct {
		condition        string
		atFirst, wasLost string
	}{
		{nvidiav1beta1.ConditionProviderReady, "", corev1.EventTypeNormal},
		{nvidiav1beta1.ConditionTopologyLevelsAvailable, "", corev1.EventTypeNormal},
		{nvidiav1beta1.ConditionPlaced, corev1.EventTypeNormal, corev1.EventTypeNormal},
		{nvidiav1beta1.ConditionReady, corev1.EventTypeNormal, corev1.EventTypeNormal},
	}
	for _, c := range cases {
		now := metav1.Condition{Type: c.condition, Status: metav1.ConditionTrue, Reason: "Fine"}
		lost := &metav1.Condition{Type: c.condition, Status: metav1.ConditionFalse, Reason: "Lost"}
		if kind, _ := eventFor(nil, now, false); kind != c.atFirst {
			t.Errorf("%s, True from the start: an event %q, want %q", c.condition, kind, c.atFirst)
		}
		if kind, _ := eventFor(lost, now, false); kind != c.wasLost {
			t.Errorf("%s, True again: an event %q, want %q", c.condition, kind, c.wasLost)
		}
	}
}

// What a new deployment goes through in its first second is written once, in the end; that it is Ready, or fails, is written at once.
func TestFirstStatus(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := nvidiav1beta1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	for state, waits := range map[nvidiav1beta1.State]bool{
		nvidiav1beta1.StatePending: true, nvidiav1beta1.StateSuccessful: false, nvidiav1beta1.StateFailed: false,
	} {
		dgd := &nvidiav1beta1.DynamoGraphDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "llm", UID: "llm"}}
		c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(dgd).WithStatusSubresource(dgd).Build()
		at := time.Unix(1000, 0)
		r := &Reconciler{Deployments: c, Recorder: events.NewFakeRecorder(10), written: pace.Writes{Now: func() time.Time { return at }}}
		look := func() (again time.Duration, written nvidiav1beta1.State) {
			t.Helper()
			again, err := r.report(t.Context(), observed{dgd: dgd}, nvidiav1beta1.DynamoGraphDeploymentStatus{State: state})
			if err != nil {
				t.Fatal(err)
			}
			now := &nvidiav1beta1.DynamoGraphDeployment{}
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(dgd), now); err != nil {
				t.Fatal(err)
			}
			return again, now.Status.State
		}
		if again, written := look(); (again > 0) != waits || (written == "") != waits {
			t.Errorf("%s: written %q at first, again in %s", state, written, again)
		}
		at = at.Add(pace.Interval)
		if again, written := look(); waits && (again > 0 || written != state) {
			t.Errorf("%s: written %q after a second, again in %s", state, written, again)
		}
	}
}
