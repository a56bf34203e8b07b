// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package dynamographdeployment

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/event"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
)

// A thousand deployments of a namespace share an object: that one more joins it is no reason to look at the others.
func TestJoiningConcernsNobodyElse(t *testing.T) {
	object := func(version, data string, owners ...types.UID) *corev1.ConfigMap {
		out := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "shared", ResourceVersion: version}, Data: map[string]string{"key": data}}
		for _, uid := range owners {
			out.OwnerReferences = append(out.OwnerReferences, metav1.OwnerReference{Kind: "DynamoGraphDeployment", UID: uid})
		}
		return out
	}
	own := func(o *corev1.ConfigMap) *corev1.ConfigMap {
		o.OwnerReferences[0].Controller = ptr.To(true)
		return o
	}
	cases := map[string]struct {
		before, now *corev1.ConfigMap
		want        bool
	}{
		"one more owner":                {object("1", "a", "x"), object("2", "a", "x", "y"), false},
		"an owner less":                 {object("1", "a", "x", "y"), object("2", "a", "y"), true},
		"one for another":               {object("1", "a", "x"), object("2", "a", "y"), true},
		"other content":                 {object("1", "a", "x"), object("2", "b", "x"), true},
		"one more owner, other content": {object("1", "a", "x"), object("2", "b", "x", "y"), true},
		"an object of one deployment":   {own(object("1", "a", "x")), own(object("2", "a", "x", "y")), true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := changedForOwners().Update(event.UpdateEvent{ObjectOld: c.before, ObjectNew: c.now}); got != c.want {
				t.Errorf("let through: %v, want %v", got, c.want)
			}
		})
	}
}

// A thousand deployments use a ClusterTopology: that its status counts one more is no reason to look at the others.
func TestReportOfATopologyConcernsNobody(t *testing.T) {
	topology := func(change func(*grovev1alpha1.ClusterTopology)) *grovev1alpha1.ClusterTopology {
		out := &grovev1alpha1.ClusterTopology{ObjectMeta: metav1.ObjectMeta{Name: "dc", Generation: 1, ResourceVersion: "1", Annotations: map[string]string{"a": "1"}}}
		if change != nil {
			out.ResourceVersion = "2"
			change(out)
		}
		return out
	}
	cases := map[string]struct {
		change func(*grovev1alpha1.ClusterTopology)
		want   bool
	}{
		"status":      {func(ct *grovev1alpha1.ClusterTopology) { ct.Status.ObservedGeneration = 1 }, false},
		"levels":      {func(ct *grovev1alpha1.ClusterTopology) { ct.Generation = 2 }, true},
		"deletion":    {func(ct *grovev1alpha1.ClusterTopology) { ct.DeletionTimestamp = ptr.To(metav1.Now()) }, true},
		"the default": {func(ct *grovev1alpha1.ClusterTopology) { ct.Annotations["a"] = "2" }, true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := topologyChanged().Update(event.UpdateEvent{ObjectOld: topology(nil), ObjectNew: topology(c.change)}); got != c.want {
				t.Errorf("let through: %v, want %v", got, c.want)
			}
		})
	}
	if !topologyChanged().Create(event.CreateEvent{Object: topology(nil)}) || !topologyChanged().Delete(event.DeleteEvent{Object: topology(nil)}) {
		t.Error("a topology that comes or goes concerns its users")
	}
}
