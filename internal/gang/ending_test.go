// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// deleted is a pod of a node that was deleted at noon with a grace period of a minute.
func deleted(node string) *corev1.Pod {
	pod := newPod(newGroup("work", 1, 1, frozen("", "rack")), 0, 0, "z", "a")
	pod.Spec.NodeName = node
	pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = &metav1.Time{Time: noon.Add(time.Minute)}, ptr.To[int64](60)
	return pod
}

func TestNotEnding(t *testing.T) {
	ready := func(node string) bool { return node == "up" }
	late := noon.Add(time.Minute + EndsWithin)
	for name, tc := range map[string]struct {
		pod  *corev1.Pod
		now  time.Time
		want string
	}{
		"it is not deleted":           {&corev1.Pod{}, late, ""},
		"it has time":                 {deleted("down"), late.Add(-time.Second), ""},
		"its kubelet does not end it": {deleted("up"), late, "pod g-work-0 on node up has been terminating since 2026-01-02T12:00:00Z, beyond its grace period"},
		"its kubelet is dead": {
			deleted("down"), late, "pod g-work-0 on node down, which is not ready, has been terminating since 2026-01-02T12:00:00Z, beyond its grace period",
		},
		"it was never bound":         {deleted(""), late.Add(time.Hour), "pod g-work-0 has been terminating since 2026-01-02T12:00:00Z, beyond its grace period"},
		"it is not known when it is": {deleted("down"), time.Time{}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, NotEnding(tc.pod, tc.now, ready)); diff != "" {
				t.Errorf("said (-want +got):\n%s", diff)
			}
		})
	}
}

// A replica that is recreated waits for a pod of it that does not end. Before that, nothing is said of it: it is recreated in a moment.
func TestAReplicaWaitsForAPodThatDoesNotEnd(t *testing.T) {
	o := asking(1)
	pod := o.Pods[0]
	pod.DeletionTimestamp = &metav1.Time{Time: noon}
	if r := NewRequest(o); len(r.Refused) > 0 || r.HasWaiting() {
		t.Errorf("refused are %v", r.Refused)
	}
	o.NotEnding = map[string]string{string(pod.UID): "it does not end"}
	want := []Waiting{{Component: "work", Code: CodePodsNotEnding, Message: "it does not end"}}
	r := NewRequest(o)
	if diff := cmp.Diff(want, r.Refused); diff != "" || r.Placed != 0 || r.Wanted != 1 || r.HasWaiting() {
		t.Errorf("placed %d of %d, refused (-want +got):\n%s", r.Placed, r.Wanted, diff)
	}
}
