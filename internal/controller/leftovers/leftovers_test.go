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

// What has changed since it was read stays: its owner may have been taken off. So does all where the owner is not the current one.
func TestDeleteAsRead(t *testing.T) {
	owner := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "owner", UID: "new"}}
	earlier := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "owner", UID: "old"}}
	leftover := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "x", UID: "1"}}
	other := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "y", UID: "2"}}
	c := fake.NewClientBuilder().WithObjects(owner, leftover, other).Build()
	read := func(name string) *corev1.ConfigMap {
		object := &corev1.ConfigMap{}
		if err := c.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: name}, object); err != nil {
			t.Fatal(err)
		}
		return object
	}
	before := read("x")
	changed := before.DeepCopy()
	changed.Labels = map[string]string{"a": "b"}
	if err := c.Update(t.Context(), changed); err != nil {
		t.Fatal(err)
	}
	leaving := read("y")
	leaving.DeletionTimestamp = ptr.To(metav1.Now())
	for name, step := range map[string]struct {
		owner   *corev1.ConfigMap
		objects []*corev1.ConfigMap
	}{
		"another owner":          {earlier, []*corev1.ConfigMap{changed}},
		"changed since":          {owner, []*corev1.ConfigMap{before}},
		"being deleted":          {owner, []*corev1.ConfigMap{leaving}},
		"none, and no owner":     {nil, nil},
		"changed and on its way": {owner, []*corev1.ConfigMap{before, leaving}},
	} {
		if err := DeleteAll(t.Context(), c, c, step.owner, step.objects); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		read("x")
		read("y")
	}
	if err := DeleteAll(t.Context(), c, c, owner, []*corev1.ConfigMap{changed, read("y")}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"x", "y"} {
		if err := c.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: name}, &corev1.ConfigMap{}); !apierrors.IsNotFound(err) {
			t.Errorf("%s is still there: %v", name, err)
		}
	}
}
