// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/trellis-k8s/trellis/internal/graph"
)

// What a replica may wait for, in the order of its life. A replica waits for the earliest that one of its pods waits for.
const (
	forDeletion = iota
	forPlace
	forNode
	forStart
	forNothing
)

var things = []string{forDeletion: "%s to be gone", forPlace: "a place for %s", forNode: "a node for %s", forStart: "%s to start"}

// waitingFor says what a service waits for: how many replicas for what, with the first pod that says why.
func waitingFor(s Snapshot, service Service) []string {
	var out []string
	states := map[int32]int{}
	why := make([]string, forNothing)
	for i := range s.Pods {
		pod := &s.Pods[i]
		ordinal, _, ok := graph.ReplicaOf(pod)
		if !ok || pod.Labels[graph.LabelComponent] != graph.LabelValue(service.Name) {
			continue
		}
		state, reason := stateOf(pod)
		if before, seen := states[ordinal]; !seen || state < before {
			states[ordinal] = state
		}
		if state < forNothing && reason != "" && why[state] == "" {
			why[state] = fmt.Sprintf(": %s (%s)", reason, pod.Name)
		}
	}
	if missing := int(service.Desired) - max(len(states), int(service.Replicas)); missing > 0 {
		out = append(out, count(missing)+" to be made")
	}
	for state, thing := range things {
		n := 0
		for _, s := range states {
			if s == state {
				n++
			}
		}
		if n > 0 {
			out = append(out, fmt.Sprintf(thing, count(n))+why[state])
		}
	}
	if old := service.Replicas - service.Updated; old > 0 && service.Ready > service.Updated {
		out = append(out, count(int(old))+" to be updated")
	}
	if surplus := service.Replicas - service.Desired; surplus > 0 && len(out) == 0 {
		out = append(out, count(int(surplus))+" to be deleted")
	}
	if starting := service.Desired - service.Ready; s.PodsHidden && starting > 0 && len(out) == 0 {
		out = append(out, count(int(starting))+" to be ready")
	}
	return out
}

func count(n int) string {
	if n == 1 {
		return "1 replica"
	}
	return fmt.Sprintf("%d replicas", n)
}

// stateOf says what a pod waits for, and the reason where it gives one.
func stateOf(pod *corev1.Pod) (state int, reason string) {
	switch {
	case pod.DeletionTimestamp != nil:
		return forDeletion, ""
	case slices.ContainsFunc(pod.Spec.SchedulingGates, func(g corev1.PodSchedulingGate) bool { return g.Name == graph.PlacementGate }):
		return forPlace, ""
	case pod.Spec.NodeName == "":
		return forNode, conditionOf(pod, corev1.PodScheduled).Message
	case conditionOf(pod, corev1.PodReady).Status == corev1.ConditionTrue:
		return forNothing, ""
	}
	for _, c := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if w := c.State.Waiting; w != nil && w.Reason != "PodInitializing" && w.Reason != "ContainerCreating" {
			return forStart, w.Reason
		}
		if t := c.State.Terminated; t != nil && t.ExitCode != 0 {
			return forStart, fmt.Sprintf("container %s ended with exit code %d", c.Name, t.ExitCode)
		}
	}
	return forStart, ""
}

func conditionOf(pod *corev1.Pod, kind corev1.PodConditionType) corev1.PodCondition {
	for _, c := range pod.Status.Conditions {
		if c.Type == kind {
			return c
		}
	}
	return corev1.PodCondition{}
}
