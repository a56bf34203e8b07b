// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scalinggroup

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
)

// rejectedOn is a pod that the kubelet of a host does not take.
func rejectedOn(host, reason string) state {
	return func(pod *corev1.Pod) {
		running(pod)
		pod.Spec.NodeName = host
		pod.Status = corev1.PodStatus{Phase: corev1.PodFailed, Reason: reason, Message: "Pod was rejected: Allocate failed"}
	}
}

// crashedOn is a pod of which a container ran on a host and failed.
func crashedOn(host string) state {
	return func(pod *corev1.Pod) {
		running(pod)
		pod.Spec.NodeName = host
		pod.Status = corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Error", ContainerStatuses: []corev1.ContainerStatus{{
			Name: "main", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1}},
		}}}
	}
}

// Each rejection counts for the host whose kubelet it was, once for all pods of one failure. A container that ran and failed, an eviction and a
// preemption count for none.
func TestRejectionsAreKeptByHost(t *testing.T) {
	type hosts = []trellisv1alpha1.RejectingHost
	evicted := func(pod *corev1.Pod) {
		crashedOn("n1")(pod)
		pod.Status.Reason = "Evicted"
	}
	preempted := func(pod *corev1.Pod) {
		rejectedOn("n1", "Preempting")(pod)
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: corev1.PodReasonPreemptionByScheduler}}
	}
	sg := group(1, 3)
	for i, step := range []struct {
		states []state
		want   hosts
	}{
		{[]state{running, rejectedOn("n1", "UnexpectedAdmissionError"), running}, hosts{{Name: "n1", Rejections: 1, Reason: "UnexpectedAdmissionError"}}},
		{[]state{running, crashedOn("n1"), running}, hosts{{Name: "n1", Rejections: 1, Reason: "UnexpectedAdmissionError"}}},
		{[]state{rejectedOn("n2", "OutOfcpu"), rejectedOn("n2", "OutOfcpu"), running}, hosts{
			{Name: "n1", Rejections: 1, Reason: "UnexpectedAdmissionError"}, {Name: "n2", Rejections: 1, Reason: "OutOfcpu"},
		}},
		{[]state{rejectedOn("n2", "TopologyAffinityError"), evicted, running}, hosts{
			{Name: "n2", Rejections: 2, Reason: "TopologyAffinityError"}, {Name: "n1", Rejections: 1, Reason: "UnexpectedAdmissionError"},
		}},
		{[]state{preempted, crashedOn("n3"), running}, hosts{
			{Name: "n2", Rejections: 2, Reason: "TopologyAffinityError"}, {Name: "n1", Rejections: 1, Reason: "UnexpectedAdmissionError"},
		}},
		{[]state{rejectedOn("n4", "a"), rejectedOn("n5", "b"), rejectedOn("n3", strings.Repeat("long ", 40))}, hosts{
			{Name: "n2", Rejections: 2, Reason: "TopologyAffinityError"}, {Name: "n1", Rejections: 1, Reason: "UnexpectedAdmissionError"},
			{Name: "n3", Rejections: 1, Reason: strings.Repeat("long ", 4) + "... " + strings.Repeat("long ", 8)}, {Name: "n4", Rejections: 1, Reason: "a"},
		}},
	} {
		now := noon.Add(time.Duration(i) * time.Hour)
		pods := podsOf(sg, 0, step.states...)
		for _, pod := range pods {
			pod.CreationTimestamp = metav1.NewTime(now)
		}
		b := backOffOf(sg, replicasOf(sg, pods, func(*corev1.Pod) bool { return false }), now)
		sg.Status.FailedReplicas = b.failed
		if len(b.failed) != 1 {
			t.Fatalf("step %d: %+v", i, b.failed)
		}
		if diff := cmp.Diff(step.want, b.failed[0].Hosts); diff != "" {
			t.Errorf("step %d: hosts (-want +got):\n%s", i, diff)
		}
	}
}

// PodsHealthy names the host of each failure, and reports when it comes last.
func TestHealthNamesTheRejectingHost(t *testing.T) {
	sg := group(1, 1)
	var said []string
	for i := range 3 {
		now := noon.Add(time.Duration(i) * time.Hour)
		pods := podsOf(sg, 0, rejectedOn("n1", "UnexpectedAdmissionError"))
		pods[0].CreationTimestamp = metav1.NewTime(now)
		replicas := replicasOf(sg, pods, func(*corev1.Pod) bool { return false })
		b := backOffOf(sg, replicas, now)
		sg.Status.FailedReplicas = b.failed
		_, message, _ := strings.Cut(healthCondition(sg, replicas, b).Message, "Z: ")
		said = append(said, message)
	}
	const why = "pod g-worker-0 on node n1: UnexpectedAdmissionError: Allocate failed"
	want := []string{
		why,
		why + "; node n1, which has rejected its pods 2 times, comes last for it",
		why + "; node n1, which has rejected its pods 3 times, comes last for it",
	}
	if diff := cmp.Diff(want, said); diff != "" {
		t.Errorf("said (-want +got):\n%s", diff)
	}
	f := sg.Status.FailedReplicas[0]
	f.Hosts = append(f.Hosts, trellisv1alpha1.RejectingHost{Name: "n2", Rejections: 2}, trellisv1alpha1.RejectingHost{Name: "n3", Rejections: 1})
	if got := lastHost(sg, f); !strings.HasSuffix(got, "3 times, and 1 more come last for it") {
		t.Errorf("said of three hosts: %q", got)
	}
	sg.Spec.Topology = nil
	sg.Spec.Multinode = false
	if got := lastHost(sg, f); got != "" {
		t.Errorf("said of pods that the kube-scheduler places: %q", got)
	}
}
