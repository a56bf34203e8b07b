// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"encoding/json"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestLongerDigits checks that digits beyond the first count, except those of UIDs and hashes, which are random.
func TestLongerDigits(t *testing.T) {
	for text, want := range map[string]int{
		`{"name":"worker-7"}`:                            0,
		`{"name":"worker-499","nodes":500}`:              4,
		`{"uid":"6b7b9c10-8e9d-4111-9222-933344445555"}`: 0,
		`{"gang":"graph-000-0123456789"}`:                2,
	} {
		if got := longerDigits([]byte(text)); got != want {
			t.Errorf("%s: %d digits, want %d", text, got, want)
		}
	}
}

// TestCreatedSize checks that pins, managed fields and status do not count, because they are added after the creation.
func TestCreatedSize(t *testing.T) {
	pod := barePod("p", "g", 8)
	small := created(t, pod)
	pod.Spec.NodeName, pod.Spec.NodeSelector = "host-000001", map[string]string{"a": "b"}
	pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{}}
	pod.Status.Phase = corev1.PodRunning
	pod.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "m"}}
	if got := created(t, pod); got != small {
		t.Errorf("with pins, managed fields and status it counts %v bytes, without %v", got, small)
	}
	pod.Spec.Containers[0].Args = []string{"12345"}
	if got := created(t, pod); got != small+7 { // text, its length and its key
		t.Errorf("with another argument it counts %v bytes, without %v", got, small)
	}
}

func created(t *testing.T, pod *corev1.Pod) float64 {
	t.Helper()
	data, err := json.Marshal(pod)
	if err != nil {
		t.Fatal(err)
	}
	size, err := createdSize(data)
	if err != nil {
		t.Fatal(err)
	}
	return size
}
