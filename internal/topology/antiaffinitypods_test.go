// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Pods with required anti-affinity are found by the namespaces that it is about, also when a pod of the same name takes the place of one.
func TestEachRepelling(t *testing.T) {
	repelling := func(namespace, name string, namespaces ...string) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
			Spec: corev1.PodSpec{NodeName: "n", Affinity: &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{TopologyKey: "zone", Namespaces: namespaces}}}}},
		}
	}
	c := NewCluster()
	of := func(namespaces ...string) (names []string) {
		c.EachRepelling(namespaces, func(pod *corev1.Pod, _ NodeID) { names = append(names, PodID(pod)) })
		slices.Sort(names)
		if c.AnyRepelling(namespaces) != (len(names) > 0) {
			t.Errorf("of %v: %v", namespaces, names)
		}
		return names
	}
	var got [][]string
	for _, change := range []func(){
		func() { c.SetPod(repelling("a", "own")) },
		func() { c.SetPod(repelling("a", "any", "b")) },
		func() { c.SetPod(repelling("a", "own", "b")) },
		func() { c.SetPod(repelling("a", "own")) },
		func() { c.DeletePod("a/any") },
		func() { c.DeletePod("a/own") },
	} {
		change()
		got = append(got, of("a"), of("b"))
	}
	want := [][]string{{"a/own"}, nil, {"a/any", "a/own"}, {"a/any"}, {"a/any", "a/own"}, {"a/any", "a/own"}, {"a/any", "a/own"}, {"a/any"}, {"a/own"}, nil, nil, nil}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
