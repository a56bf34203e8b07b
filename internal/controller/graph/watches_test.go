// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package graph

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/event"
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
