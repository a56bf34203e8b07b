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

	"github.com/trellis-k8s/trellis/internal/limit"
	"github.com/trellis-k8s/trellis/internal/rollout"
)

// waits is a pod on a node whose container does not start.
func waits(reason, message string) state {
	return func(pod *corev1.Pod) {
		unready(pod)
		pod.Status.Phase = corev1.PodPending
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", Image: "example.com/x:1", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}}}
	}
}

// crashes is a pod whose container ends with a code; between is its state until it is started again.
func crashes(code int32, reason string, between corev1.ContainerState) state {
	return func(pod *corev1.Pod) {
		unready(pod)
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
			Name: "main", RestartCount: 4, State: between,
			LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Reason: reason}},
		}}
	}
}

func TestHealth(t *testing.T) {
	const again = "PodsNotStarting pod g-worker-0: container main is restarted repeatedly, exited with code 137 (OOMKilled)"
	sidecar := func(pod *corev1.Pod) {
		running(pod)
		pod.Status.Conditions = nil
		pod.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "fetch", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CreateContainerConfigError", Message: `secret "x" not found`}}}}
	}
	cases := map[string]struct {
		pods []state
		want string
	}{
		"starting": {pods: []state{waits("ContainerCreating", "")}},
		"running":  {pods: []state{running}},
		"the image, first try": {
			[]state{waits("ErrImagePull", "not found")},
			`PodsNotStarting pod g-worker-0: container main: ImagePullBackOff: image "example.com/x:1" cannot be pulled: not found`,
		},
		"the image, later": {
			[]state{waits("ImagePullBackOff", `Back-off pulling image "example.com/x:1": ErrImagePull: not found`)},
			`PodsNotStarting pod g-worker-0: container main: ImagePullBackOff: image "example.com/x:1" cannot be pulled: not found`,
		},
		"the image, by a kubelet that does not repeat the cause": {
			[]state{waits("ImagePullBackOff", `Back-off pulling image "example.com/x:1"`)},
			`PodsNotStarting pod g-worker-0: container main: ImagePullBackOff: image "example.com/x:1" cannot be pulled`,
		},
		"a crash loop, waiting":  {[]state{crashes(137, "OOMKilled", corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff", Message: "back-off 40s"}})}, again},
		"a crash loop, running":  {[]state{crashes(137, "OOMKilled", corev1.ContainerState{Running: &corev1.ContainerStateRunning{}})}, again},
		"a crash loop, just now": {[]state{crashes(1, "Error", corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 137, Reason: "OOMKilled"}})}, again},
		"a first restart": {
			[]state{func(pod *corev1.Pod) {
				crashes(1, "Error", corev1.ContainerState{Running: &corev1.ContainerStateRunning{}})(pod)
				pod.Status.ContainerStatuses[0].RestartCount = 1
			}},
			"PodsNotStarting pod g-worker-0: container main was restarted and is not ready, exited with code 1 (Error)",
		},
		"a cause at the end of a message": {
			[]state{waits("CreateContainerError", "runc create failed: "+strings.Repeat("unable to start container process: ", 9)+`exec: "python3": executable file not found`)},
			"PodsNotStarting pod g-worker-0: container main: CreateContainerError: runc create fa...to start container process: " +
				`unable to start container process: exec: "python3": executable file not found`,
		},
		"a command that does not exist, between two starts": {
			[]state{func(pod *corev1.Pod) {
				crashes(128, "StartError", corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}})(pod)
				pod.Status.ContainerStatuses[0].LastTerminationState.Terminated.Message = `exec: "python3": executable file not found in $PATH`
			}},
			"PodsNotStarting pod g-worker-0: container main is restarted repeatedly, exited with code 128 (StartError): " +
				`exec: "python3": executable file not found in $PATH`,
		},
		"a secret of an init container is missing": {
			[]state{sidecar}, `PodsNotStarting pod g-worker-0: container fetch: CreateContainerConfigError: secret "x" not found`,
		},
		"many pods": {
			[]state{waits("InvalidImageName", "a"), running, waits("InvalidImageName", "b"), waits("InvalidImageName", "c"), waits("InvalidImageName", "d"), waits("InvalidImageName", "e")},
			"PodsNotStarting pod g-worker-0: container main: InvalidImageName: a; pod g-worker-2: container main: InvalidImageName: b; pod g-worker-3: container main: InvalidImageName: c; 2 more pods do not start",
		},
		"a failure, and a pod that does not start": {
			[]state{waits("InvalidImageName", strings.Repeat("long ", 100)), failed},
			"ReplicaFailed replica 1 failed, it is recreated at 2026-01-02T03:04:06Z: pod g-worker-1 on node node: it has failed; pod g-worker-0: container main: InvalidImageName: " + strings.Repeat("long ", 3) + "lon..." + strings.Repeat("long ", 21),
		},
		"preempted, or evicted by the API": {[]state{displacedPod}, ""},
		"its node is gone":                 {[]state{nodeless}, ""},
		"evicted by its node, and ended in peace": {
			[]state{func(pod *corev1.Pod) {
				running(pod)
				pod.Status.Phase = corev1.PodSucceeded
				pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{
					Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: corev1.PodReasonTerminationByKubelet,
					Message: "The node was low on resource: ephemeral-storage.",
				})
			}},
			"ReplicaFailed replica 0 failed, it is recreated at 2026-01-02T03:04:06Z: pod g-worker-0 on node node: " +
				"its node evicted it: The node was low on resource: ephemeral-storage",
		},
		"rejected for a long reason": {
			[]state{func(pod *corev1.Pod) {
				failed(pod)
				pod.Status.Reason = "UnexpectedAdmissionError"
				pod.Status.Message = "Pod was rejected: Allocate failed due to rpc error: code = Unknown desc = " + strings.Repeat("a plugin ", 30) + "does not answer"
			}},
			"ReplicaFailed replica 0 failed, it is recreated at 2026-01-02T03:04:06Z: pod g-worker-0 on node node: UnexpectedAdmissionError: " +
				"Allocate failed due to rpc error: code = Unknow... plugin" + strings.Repeat(" a plugin", 8) + " does not answer",
		},
		"ended in peace": {
			[]state{func(pod *corev1.Pod) { running(pod); pod.Status.Phase = corev1.PodSucceeded }},
			"ReplicaFailed replica 0 failed, it is recreated at 2026-01-02T03:04:06Z: pod g-worker-0 on node node: all its containers have completed",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			sg, got := group(int32(len(c.pods)), 1), ""
			replicas := replicasAt(time.Minute, c.pods)
			if health := healthCondition(sg, replicas, backOffOf(sg, replicas, noon)); health != nil {
				got = health.Reason + " " + health.Message
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("condition (-want +got):\n%s", diff)
			}
		})
	}
}

// A message and a stored reason are bounded, whatever a kubelet says.
func TestHealthIsBounded(t *testing.T) {
	sg := group(8, 1)
	var states []state
	for range 8 {
		states = append(states, func(pod *corev1.Pod) {
			failed(pod)
			pod.Status.Reason, pod.Status.Message = "Evicted", strings.Repeat("é", 4000)
		})
	}
	replicas := replicasAt(time.Minute, states)
	b := backOffOf(sg, replicas, noon)
	if got := len(b.failed[0].Reason); got > maxWhy {
		t.Errorf("a stored reason has %d bytes", got)
	}
	if c := healthCondition(sg, replicas, b); len(c.Message) > limit.Condition || !strings.HasSuffix(c.Message, "; 5 more replicas failed") {
		t.Errorf("message of %d bytes: %s", len(c.Message), c.Message)
	}
}

var noon = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func displacedPod(pod *corev1.Pod) {
	failed(pod)
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: corev1.PodReasonPreemptionByScheduler}}
}

// replicasAt are replicas of one pod each, as old as age at noon.
func replicasAt(age time.Duration, states []state) map[int32]*replica {
	of := group(int32(len(states)), 1)
	var pods []*corev1.Pod
	for ordinal, s := range states {
		pods = append(pods, podsOf(of, int32(ordinal), s)...)
	}
	for _, pod := range pods {
		pod.CreationTimestamp = metav1.NewTime(noon.Add(-age))
	}
	return replicasOf(of, pods, func(pod *corev1.Pod) bool { return pod.Spec.NodeName == "gone" })
}

// The pods of one failed replica end one after the other: that is one failure. The next one is of pods created later.
func TestOneFailureOfManyPods(t *testing.T) {
	sg := group(1, 3)
	at := func(now time.Time, created time.Duration, states ...state) backOff {
		pods := podsOf(sg, 0, states...)
		for _, pod := range pods {
			pod.CreationTimestamp = metav1.NewTime(noon.Add(created))
		}
		b := backOffOf(sg, replicasOf(sg, pods, func(*corev1.Pod) bool { return false }), now)
		sg.Status.FailedReplicas = b.failed
		return b
	}
	for i, step := range []struct {
		now      time.Time
		created  time.Duration
		states   []state
		failures int32
		isNew    bool
	}{
		{noon, -time.Second, []state{running, failed, running}, 1, true},
		{noon.Add(time.Second), -time.Second, []state{terminating, nil, failed}, 1, false},
		{noon.Add(2 * time.Second), -time.Second, []state{failed, nil, nil}, 1, false},
		{noon.Add(4 * time.Second), 2 * time.Second, []state{running, failed, running}, 2, true},
	} {
		b := at(step.now, step.created, step.states...)
		if len(b.failed) != 1 || b.failed[0].Failures != step.failures || b.isNew != step.isNew {
			t.Errorf("step %d: %+v, new %v", i, b.failed, b.isNew)
		}
	}
}

// Of more failures than are stored none is recreated in a loop: while one of the stored waits, so do all others.
func TestManyFailures(t *testing.T) {
	const n = 2 * maxFailed
	var states []state
	for range n {
		states = append(states, failed)
	}
	sg := group(n, 1)
	b := backOffOf(sg, replicasAt(time.Minute, states), noon)
	if len(b.failed) != maxFailed {
		t.Fatalf("%d failures are stored", len(b.failed))
	}
	sg.Status.FailedReplicas = b.failed
	for _, c := range []struct {
		now  time.Time
		want int
	}{{noon, 0}, {noon.Add(time.Second), n}} {
		empty := map[int32]*replica{}
		b := backOffOf(sg, empty, c.now)
		if got := len(b.without(rollout.For(sg).Next(nil, nil, n)).Make); got != c.want {
			t.Errorf("%v later %d of %d replicas are made, want %d", c.now.Sub(noon), got, n, c.want)
		}
	}
	if b := backOffOf(sg, nil, noon.Add(settledAfter+2*time.Second)); len(b.failed) != 0 {
		t.Errorf("%d failures of replicas that nobody wants are kept", len(b.failed))
	}
}
