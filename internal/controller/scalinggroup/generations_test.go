// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scalinggroup

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/render"
)

// TestOutdatedReplicasByGeneration counts the replicas that are to be replaced.
func TestOutdatedReplicasByGeneration(t *testing.T) {
	of := func(generation string, s state) state {
		return func(pod *corev1.Pod) { s(pod); pod.Labels[render.LabelWorkerHash] = generation }
	}
	sg := group(6, 1)
	template := &sg.Spec.Roles[0].Template
	template.Labels = map[string]string{render.LabelWorkerHash: "c"}
	template.Spec.Containers = []corev1.Container{{Name: "main", Env: []corev1.EnvVar{{Name: "DYN_NAMESPACE_WORKER_SUFFIX", Value: "c"}}}}
	var pods []*corev1.Pod
	for ordinal, s := range []state{of("a", old(running)), of("a", old(unready)), of("b", old(running)), of("b", old(terminating)), of("", old(running)), running} {
		pods = append(pods, podsOf(sg, int32(ordinal), s)...)
	}
	replicas := replicasOf(sg, pods, func(*corev1.Pod) bool { return false })
	want := []trellisv1alpha1.GenerationCount{{Name: "", Replicas: 1, AvailableReplicas: 1}, {Name: "a", Replicas: 2, AvailableReplicas: 1}, {Name: "b", Replicas: 1, AvailableReplicas: 1}}
	if diff := cmp.Diff(want, generationsOf(sg, replicas)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	template.Labels = nil
	if got := generationsOf(sg, replicas); got != nil {
		t.Errorf("a group without generations counts %v", got)
	}
	template.Labels = map[string]string{render.LabelWorkerHash: "c"}
	for i := range int32(2 * trellisv1alpha1.MaxGenerations) {
		replicas[10+i] = &replica{size: 1, outdated: true, generation: fmt.Sprint(i), pods: map[int32]*corev1.Pod{0: podsOf(sg, i, unready)[0]}}
	}
	got := generationsOf(sg, replicas)
	if len(got) != trellisv1alpha1.MaxGenerations || got[0].Name != "" || got[len(got)-2].Name != "a" {
		t.Errorf("those with available replicas are not listed first: %v", got)
	}
}

// TestProgress: the clock of an update begins anew when a further replica is available, the revision is another one, or a paused update is resumed.
func TestProgress(t *testing.T) {
	sg := group(3, 1)
	clock := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	status := &trellisv1alpha1.ScalingGroupStatus{}
	look := func(available int32) string {
		clock = clock.Add(time.Minute)
		status.UpdatedAvailableReplicas = available
		status.Progress = progressOf(sg, status, false, false, metav1.NewTime(clock))
		return status.Progress.Time.UTC().Format("15:04")
	}
	got := []string{look(0), look(0), look(1), look(0), look(1), look(2)}
	sg.Spec.Revision = "newer"
	got = append(got, look(0), look(0))
	sg.Spec.Step = &trellisv1alpha1.RolloutStep{Paused: true}
	got = append(got, look(0), look(0))
	sg.Spec.Step = nil
	got = append(got, look(0), look(0))
	want := []string{"12:01", "12:01", "12:03", "12:03", "12:03", "12:06", "12:07", "12:07", "12:07", "12:07", "12:11", "12:11"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if p := progressOf(sg, status, true, false, metav1.NewTime(clock)); p != nil {
		t.Errorf("the update is over: %+v", p)
	}
}
