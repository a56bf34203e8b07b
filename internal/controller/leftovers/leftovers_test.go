// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package leftovers

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

func TestOf(t *testing.T) {
	owned := func(kind, name string, uid types.UID, controller bool) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{{Kind: kind, Name: name, UID: uid, Controller: ptr.To(controller)}}}}
	}
	tests := map[string]struct {
		object *corev1.Pod
		want   bool
	}{
		"of an earlier one":      {owned("ScalingGroup", "g", "old", true), true},
		"of this one":            {owned("ScalingGroup", "g", "new", true), false},
		"of another":             {owned("ScalingGroup", "h", "old", true), false},
		"of another kind":        {owned("ReplicaSet", "g", "old", true), false},
		"shared with an earlier": {owned("ScalingGroup", "g", "old", false), false},
		"of nobody":              {&corev1.Pod{}, false},
	}
	for name, tc := range tests {
		if got := Of(tc.object, "ScalingGroup", "g", "new"); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// A cache that lags behind shows the owner before this one, or none yet: nothing may be deleted on its word.
func TestCurrent(t *testing.T) {
	now := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "owner", UID: "new"}}
	live := fake.NewClientBuilder().WithObjects(now).Build()
	tests := map[string]struct {
		name string
		uid  types.UID
		want bool
	}{
		"it is":              {"owner", "new", true},
		"it has a successor": {"owner", "old", false},
		"it is there by now": {"owner", "", false},
		"it is gone":         {"other", "old", false},
		"there is none":      {"other", "", true},
	}
	for name, tc := range tests {
		got, err := Current(t.Context(), live, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: tc.name, UID: tc.uid}})
		if err != nil || got != tc.want {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

// What has changed since it was read stays: its owner may have been taken off.
func TestDeleteAsRead(t *testing.T) {
	c := fake.NewClientBuilder().WithObjects(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "x", UID: "1"}}).Build()
	read, key := &corev1.ConfigMap{}, client.ObjectKey{Namespace: "ns", Name: "x"}
	if err := c.Get(t.Context(), key, read); err != nil {
		t.Fatal(err)
	}
	changed := read.DeepCopy()
	changed.Labels = map[string]string{"a": "b"}
	if err := c.Update(t.Context(), changed); err != nil {
		t.Fatal(err)
	}
	if err := Delete(t.Context(), c, read); err != nil {
		t.Fatal(err)
	}
	if err := c.Get(t.Context(), key, &corev1.ConfigMap{}); err != nil {
		t.Errorf("it was changed since, and is gone: %v", err)
	}
	if err := Delete(t.Context(), c, changed); err != nil {
		t.Fatal(err)
	}
	if err := c.Get(t.Context(), key, &corev1.ConfigMap{}); !apierrors.IsNotFound(err) {
		t.Errorf("it is still there: %v", err)
	}
}
