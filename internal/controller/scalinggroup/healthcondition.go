// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scalinggroup

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/limit"
	"github.com/trellis-k8s/trellis/internal/render"
)

const (
	// maxNamed is the maximum number of replicas, and of pods, that a message names.
	maxNamed = 3
	// maxCause is the maximum length of a kubelet's message about a container or pod, in bytes.
	maxCause = 160
)

// healthCondition returns the condition PodsHealthy, which names replicas that failed and pods that do not start, are not Ready or do not
// end; nil if there are no such replicas and pods.
func healthCondition(sg *trellisv1alpha1.ScalingGroup, replicas map[int32]*replica, b backOff) *metav1.Condition {
	c := &metav1.Condition{Type: trellisv1alpha1.ConditionPodsHealthy, Status: metav1.ConditionFalse, ObservedGeneration: sg.Generation}
	failed, ending := b.messages(sg, replicas), notEnding(replicas)
	stuck, unready := stuckPods(replicas)
	switch {
	case len(failed) > 0:
		c.Reason = trellisv1alpha1.ReasonReplicaFailed
	case len(stuck) > 0:
		c.Reason = trellisv1alpha1.ReasonPodsNotStarting
	case len(unready) > 0:
		c.Reason = trellisv1alpha1.ReasonPodsNotReady
	case len(ending) > 0:
		c.Reason = trellisv1alpha1.ReasonPodsNotEnding
	default:
		return nil
	}
	parts := slices.Concat(
		limit.First(failed, maxNamed, "replicas failed"), limit.First(stuck, maxNamed, "pods do not start"),
		limit.First(unready, maxNamed, "pods are not Ready"), limit.First(ending, maxNamed, "pods do not end"))
	c.Message = limit.Text(strings.Join(parts, "; "), limit.Condition)
	return c
}

// messages returns the messages about failed replicas that have not become Ready again.
func (b *backOff) messages(sg *trellisv1alpha1.ScalingGroup, replicas map[int32]*replica) []string {
	var out []string
	for _, f := range b.failed {
		if _, ready := replicas[f.Replica].readySince(); ready {
			continue
		}
		times := "failed"
		if f.Failures > 1 {
			times = fmt.Sprintf("failed %d times in succession", f.Failures)
		}
		next := "it is tried again now"
		if b.waits(f) {
			next = "it is recreated at " + f.RetryAt.UTC().Format(time.RFC3339)
		}
		out = append(out, fmt.Sprintf("replica %d %s, %s: %s%s", f.Replica, times, next, f.Reason, lastHost(sg, f)))
	}
	return out
}

// stuckPods describes why pods are not Ready. stuck lists the pods with a container that does not start or does not keep running; unready
// lists the pods whose containers run.
func stuckPods(replicas map[int32]*replica) (stuck, unready []string) {
	for _, ordinal := range sortedOrdinals(replicas) {
		one := replicas[ordinal]
		for _, pod := range one.active() {
			switch why := one.whyNotReady(pod); {
			case why == "":
			case one.causes[pod.UID].starts:
				unready = append(unready, "pod "+pod.Name+": "+why)
			default:
				stuck = append(stuck, "pod "+pod.Name+": "+why)
			}
		}
	}
	return stuck, unready
}

// whyNotReady returns why a pod of the replica is not Ready, according to its status or else to its node and its events; "" for a Ready pod
// or an unknown cause.
func (r *replica) whyNotReady(pod *corev1.Pod) string {
	if render.PodReady(pod) {
		return ""
	}
	return cmp.Or(whyNotStarting(pod), r.causes[pod.UID].text)
}

// notEnding describes each deleted pod that does not terminate: its node, and since when.
func notEnding(replicas map[int32]*replica) []string {
	var out []string
	for _, ordinal := range sortedOrdinals(replicas) {
		out = append(out, replicas[ordinal].notEnding...)
	}
	return out
}

// whyNotStarting returns what prevents a container of the pod from running, or "". The text is the same during and between the retries of
// the kubelet.
func whyNotStarting(pod *corev1.Pod) string {
	for _, s := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		last := s.LastTerminationState.Terminated
		if s.State.Terminated != nil && s.State.Terminated.ExitCode != 0 {
			last = s.State.Terminated
		}
		waiting := s.State.Waiting
		switch {
		case !s.Ready && last != nil && s.RestartCount > 0 && (waiting == nil || waiting.Reason == "CrashLoopBackOff"):
			return whyRestarted(&s, last)
		case waiting == nil || waiting.Reason == "" || waiting.Reason == "ContainerCreating" || waiting.Reason == "PodInitializing" ||
			waiting.Reason == "CrashLoopBackOff":
		case waiting.Reason == imageBackOff, slices.Contains(pullErrors, waiting.Reason): // the kubelet alternates between these reasons
			return whyNotPulled(&s, waiting)
		default:
			return limit.Middle(fmt.Sprintf("container %s: %s: %s", s.Name, waiting.Reason, cmp.Or(waiting.Message, "no message")), maxCause)
		}
	}
	return ""
}

const imageBackOff = "ImagePullBackOff"

// pullErrors are the reasons with which the kubelet reports a failed image pull (evalCRIPullErr).
var pullErrors = []string{"ErrImagePull", "RegistryUnavailable", "SignatureValidationFailed"}

// whyNotPulled describes an image that cannot be pulled. Newer kubelets repeat the error of the last pull while they back off.
func whyNotPulled(s *corev1.ContainerStatus, waiting *corev1.ContainerStateWaiting) string {
	what := fmt.Sprintf("container %s: ImagePullBackOff: image %q cannot be pulled", s.Name, limit.Text(s.Image, maxCause))
	cause := waiting.Message
	if waiting.Reason == imageBackOff {
		_, cause, _ = strings.Cut(cause, `": `)
		for _, reason := range pullErrors {
			cause = strings.TrimPrefix(cause, reason+": ")
		}
	}
	if cause == "" {
		return what
	}
	return what + ": " + limit.Middle(cause, maxCause)
}

// whyRestarted describes a container that was restarted and is not ready.
func whyRestarted(s *corev1.ContainerStatus, last *corev1.ContainerStateTerminated) string {
	if s.RestartCount == 1 {
		return fmt.Sprintf("container %s was restarted and is not ready, %s", s.Name, exit(last))
	}
	return fmt.Sprintf("container %s is restarted repeatedly, %s", s.Name, exit(last))
}

// whyEnded returns the reason for which a pod ended.
func whyEnded(pod *corev1.Pod) string {
	if by := evictedBy(pod); by != "" && pod.Status.Reason == "" {
		return by
	}
	if pod.Status.Phase == corev1.PodSucceeded {
		return "all its containers have completed"
	}
	if pod.Status.Reason != "" {
		return strings.TrimSuffix(pod.Status.Reason+": "+pod.Status.Message, ": ")
	}
	for _, s := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if t := s.State.Terminated; t != nil && t.ExitCode != 0 {
			return fmt.Sprintf("container %s %s", s.Name, exit(t))
		}
	}
	return cmp.Or(pod.Status.Message, "it has failed")
}

// evictedBy returns why a pod's node evicted the pod, according to the pod's condition DisruptionTarget; "" without such a condition. It
// ignores the containers' exit codes.
func evictedBy(pod *corev1.Pod) string {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue && c.Reason == corev1.PodReasonTerminationByKubelet {
			return strings.TrimSuffix("its node evicted it: "+cmp.Or(c.Message, c.Reason), ".")
		}
	}
	return ""
}

// exit describes how a container terminated. If the runtime could not start the container, the text includes the runtime's message.
func exit(t *corev1.ContainerStateTerminated) string {
	if t.Reason == "" {
		return fmt.Sprintf("exited with code %d", t.ExitCode)
	}
	how := fmt.Sprintf("exited with code %d (%s)", t.ExitCode, t.Reason)
	if message := strings.TrimSpace(t.Message); message != "" && slices.Contains(notStarted, t.Reason) {
		return how + ": " + limit.Middle(message, maxCause)
	}
	return how
}

// notStarted are the termination reasons of containers that the runtime could not start. Messages with these reasons come from the runtime
// (CRI).
var notStarted = []string{"StartError", "ContainerCannotRun"}

func sortedOrdinals(replicas map[int32]*replica) []int32 { return slices.Sorted(maps.Keys(replicas)) }
