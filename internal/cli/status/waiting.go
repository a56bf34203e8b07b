// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/cli/live"
	"github.com/trellis-k8s/trellis/internal/render"
)

// The steps that a replica may wait for, in their order. A replica waits for the earliest of the steps that its pods wait for.
const (
	forDeletion = iota
	forPods
	forAdmission
	forPlace
	forNode
	forStart
	forNothing
)

var things = []string{
	forDeletion: "%s to be gone", forPods: "missing pods of %s", forAdmission: "admission of %s", forPlace: "a place for %s",
	forNode: "a node for %s", forStart: "%s to start",
}

// replicaState describes what a replica waits for. state is the step. reason is the first reason of a pod at this step. pods is the number
// of existing pods, and all is the number in a complete replica.
type replicaState struct {
	state     int
	reason    string
	pods, all int
}

// statesOf returns the state of each replica of a component that has pods, by ordinal. It returns nil if another operator creates the pods,
// e.g. Grove, because the labels of such pods do not name a replica.
func statesOf(s Observed, c *nvidiav1beta1.ComponentSpec) map[int32]replicaState {
	states := map[int32]replicaState{}
	for i := range s.Pods {
		pod := &s.Pods[i]
		if pod.Labels[render.LabelComponent] != render.LabelValue(c.Name) {
			continue
		}
		ordinal, _, ok := render.ReplicaOf(pod)
		if !ok {
			return nil
		}
		r, seen := states[ordinal]
		state, reason := stateOf(pod)
		if !seen {
			r = replicaState{state: forNothing, all: live.PodsOf(pod, c)}
		}
		if r.pods++; state < r.state {
			r.state, r.reason = state, ""
		}
		if state == r.state && state < forNothing && reason != "" && r.reason == "" {
			r.reason = fmt.Sprintf(": %s (%s)", reason, pod.Name)
		}
		states[ordinal] = r
	}
	for ordinal, r := range states {
		if r.pods < r.all && r.state > forPods {
			states[ordinal] = replicaState{state: forPods, reason: fmt.Sprintf(": %d of %d there", r.pods, r.all)}
		}
	}
	return states
}

// waitingFor lists what a component waits for. For each step, it gives the number of replicas at this step, and the first reason of these
// replicas.
func waitingFor(s Observed, component Component, states map[int32]replicaState) []string {
	var out []string
	there := len(states)
	if s.PodsHidden || states == nil {
		there = int(component.Replicas)
	}
	if missing := int(component.Desired) - there; missing > 0 {
		out = append(out, count(missing)+" to be made")
	}
	for state, thing := range things {
		n, why := 0, ""
		for _, ordinal := range slices.Sorted(maps.Keys(states)) {
			if r := states[ordinal]; r.state == state {
				n, why = n+1, cmp.Or(why, r.reason)
			}
		}
		if n > 0 {
			out = append(out, fmt.Sprintf(thing, count(n))+why)
		}
	}
	if old := component.Replicas - component.Updated; old > 0 && component.Ready > component.Updated {
		out = append(out, count(int(old))+" to be updated")
	}
	if surplus := component.Replicas - component.Desired; surplus > 0 && len(out) == 0 {
		out = append(out, count(int(surplus))+" to be deleted")
	}
	if starting := component.Desired - component.Ready; s.PodsHidden && starting > 0 && len(out) == 0 {
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

// stateOf returns the step that a pod waits for, and the reason if the pod has one.
func stateOf(pod *corev1.Pod) (state int, reason string) {
	switch {
	case pod.DeletionTimestamp != nil:
		return forDeletion, ""
	case len(render.ForeignGates(pod)) > 0:
		return forAdmission, fmt.Sprintf("scheduling gate %q", render.ForeignGates(pod)[0])
	case render.GateClosed(pod):
		return forPlace, ""
	case pod.Spec.NodeName == "":
		return forNode, conditionOf(pod, corev1.PodScheduled).Message
	case conditionOf(pod, corev1.PodReady).Status == corev1.ConditionTrue:
		return forNothing, ""
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
