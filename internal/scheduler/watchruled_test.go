// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// What rules about other pods count of a bound pod has the graphs looked at that such rules keep waiting.
func TestBoundPodsWakeRuledGraphs(t *testing.T) {
	bound := withGPU(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: "p", UID: "p", Labels: map[string]string{"app": "a"}}})
	bound.Spec.NodeName = "a0"
	change := func(f func(*corev1.Pod)) *corev1.Pod {
		out := bound.DeepCopy()
		f(out)
		return out
	}
	for name, tc := range map[string]struct {
		old, now *corev1.Pod
		want     bool
	}{
		"seen for the first time": {nil, bound, true},
		"bound":                   {change(func(p *corev1.Pod) { p.Spec.NodeName = "" }), bound, true},
		"other labels":            {bound, change(func(p *corev1.Pod) { p.Labels["app"] = "b" }), true},
		"being deleted":           {bound, change(func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{} }), true},
		"nothing new":             {bound, bound.DeepCopy(), false},
		"not bound":               {nil, change(func(p *corev1.Pod) { p.Spec.NodeName = "" }), false},
	} {
		t.Run(name, func(t *testing.T) {
			b, ruled := newBench(t, Options{}), types.NamespacedName{Namespace: "ns", Name: "ruled"}
			b.s.queue.setWaiting(ruled, true, waiting{ruled: true})
			b.s.podSet(tc.old, tc.now)
			if _, woken := b.s.queue.later[ruled]; woken != tc.want {
				t.Errorf("woken: %v, want %v", woken, tc.want)
			}
		})
	}
}
