// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package graph

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
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
