// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"encoding/json"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/trellis-k8s/trellis/internal/render"
)

// follow does what an advice says, and what the operator then does.
func (w *world) follow(step string) {
	w.Helper()
	words := strings.Fields(step)
	_, quoted, _ := strings.Cut(step, "'")
	quoted = strings.TrimSuffix(quoted, "'")
	gone := func(is func(*corev1.Pod) bool) {
		before := len(w.Pods)
		if w.Pods = slices.DeleteFunc(w.Pods, is); len(w.Pods) == before {
			w.Errorf("%s: there is no such pod", step)
		}
	}
	of := func(graph string) func(*corev1.Pod) bool {
		return func(pod *corev1.Pod) bool { return pod.Labels[render.LabelGraph] == graph }
	}
	switch strings.Join(words[:min(3, len(words))], " ") {
	case "kubectl delete pod":
		gone(func(pod *corev1.Pod) bool { return pod.Namespace == words[4] && slices.Contains(words[5:], pod.Name) })
	case "kubectl delete dgd":
		gone(of(words[5]))
		w.Graphs, w.Groups = w.Graphs[:1], w.Groups[:2]
	case "kubectl taint node":
		w.node(words[3]).Spec.Taints = slices.DeleteFunc(w.node(words[3]).Spec.Taints, func(t corev1.Taint) bool { return t.ToString()+"-" == words[4] })
	case "kubectl trellis rollout":
		gone(of("chat"))
	case "kubectl patch dgd":
		w.patch(words[5], quoted)
	default:
		w.byHand(words)
	}
}

// byHand does what is not one command on an object.
func (w *world) byHand(words []string) {
	w.Helper()
	switch {
	case strings.HasPrefix(strings.Join(words, " "), "kubectl uncordon"):
		for _, name := range words[2:] {
			w.node(name).Spec.Unschedulable = false
		}
	case words[0] == "Repair":
		for _, n := range w.Nodes {
			if strings.Contains(strings.Join(words, " "), n.Name) {
				n.Spec.Taints = nil
			}
		}
	case words[0] == "Scale":
		w.Pods = slices.DeleteFunc(w.Pods, func(pod *corev1.Pod) bool { return strings.Contains(strings.Join(words, " "), pod.Name) })
	default:
		w.Fatalf("nobody can follow %q", words)
	}
}

// patch changes the priority class of a deployment, or the replicas of a component. Scaling in removes the highest ordinals.
func (w *world) patch(graph, patch string) {
	w.Helper()
	var operations []struct {
		Path  string
		Value int32
	}
	if json.Unmarshal([]byte(patch), &operations) != nil {
		w.DGD.Spec.PriorityClassName = "high"
		w.Groups, w.Pods = nil, slices.DeleteFunc(w.Pods, func(pod *corev1.Pod) bool { return pod.Labels[render.LabelGraph] == "chat" })
		w.resolve(waitingGraph).ranked()
		return
	}
	for _, sg := range w.Groups {
		if sg.Spec.Graph != graph {
			continue
		}
		sg.Spec.Replicas = operations[0].Value
		w.Graphs[1].Spec.Components[0].Replicas = &operations[0].Value
		w.Pods = slices.DeleteFunc(w.Pods, func(pod *corev1.Pod) bool {
			ordinal, _, ok := render.ReplicaOf(pod)
			return ok && pod.Labels[render.LabelGraph] == graph && ordinal >= operations[0].Value
		})
	}
}
