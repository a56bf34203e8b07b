// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/trellis-k8s/trellis/internal/render"
)

// A pod of ours outside the managed namespaces, left from a time when its own was managed, is one of the others: nothing leads from it to
// its scaling group, which is not in the cache, and what it takes from its node still counts.
func TestPodsOutsideManagedNamespaces(t *testing.T) {
	cases := map[string]struct {
		namespaces []string
		ours       bool
	}{
		"all are managed":       {nil, true},
		"its own is managed":    {[]string{"team-b", "team-a"}, true},
		"its own is not":        {[]string{"team-b"}, false},
		"only a similar one is": {[]string{"team"}, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := transformPod(t, cacheOptions(c.namespaces), &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{
					Namespace: "team-a", Name: "pod", Labels: map[string]string{render.LabelScalingGroup: "sg"},
					OwnerReferences: []metav1.OwnerReference{{Kind: "ScalingGroup", Name: "sg", Controller: ptr.To(true)}},
				},
				Spec: corev1.PodSpec{NodeName: "node"},
			})
			if ours := metav1.GetControllerOf(got) != nil; ours != c.ours {
				t.Errorf("ours: %v, want %v", ours, c.ours)
			}
			if got.Spec.NodeName != "node" {
				t.Error("it does not take capacity any more")
			}
		})
	}
}

func transformPod(t *testing.T, o cache.Options, pod *corev1.Pod) *corev1.Pod {
	t.Helper()
	for object, settings := range o.ByObject {
		if _, isPod := object.(*corev1.Pod); isPod {
			if _, all := settings.Namespaces[cache.AllNamespaces]; o.DefaultNamespaces != nil && (!all || len(settings.Namespaces) != 1) {
				t.Error("pods are not read from the whole cluster")
			}
			got, err := settings.Transform(pod)
			if err != nil {
				t.Fatal(err)
			}
			return got.(*corev1.Pod)
		}
	}
	t.Fatal("pods are kept whole")
	return nil
}
