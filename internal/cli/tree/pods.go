// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package tree

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/cli"
	"github.com/trellis-k8s/trellis/internal/cli/text"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// States of a pod that is not ready, in addition to StateNotReady.
const (
	stateTerminating = "terminating"
	// stateReleased: the pod is not bound yet, but capacity is reserved for it.
	stateReleased = "released"
)

// nodeOf returns the node to which a pod is bound. If the pod is not bound, it returns the node on which capacity is reserved for the pod,
// with released set. Without such a node, it returns "".
func (s *Scene) nodeOf(p *corev1.Pod) (node string, released bool) {
	if p.Spec.NodeName != "" {
		return p.Spec.NodeName, false
	}
	return s.Planner.Cluster().Reserved(topology.PodID(p))
}

// member describes a pod of a scaling group, from the pod's labels and state.
func (s *Scene) member(p *corev1.Pod, sg *trellisv1alpha1.ScalingGroup) memberPod {
	m := memberPod{object: p}
	m.Pod = Pod{Name: p.Name, Namespace: p.Namespace, Graph: sg.Spec.Graph, Component: sg.Spec.Component, Role: p.Labels[render.LabelRole]}
	m.Replica, m.Index, _ = render.ReplicaOf(p)
	var released bool
	m.node, released = s.nodeOf(p)
	switch {
	case p.DeletionTimestamp != nil:
		m.State = stateTerminating
	case released:
		m.State = stateReleased
	case m.node != "" && !render.PodReady(p):
		m.State = StateNotReady
	}
	return m
}

func comparePods(a, b Pod) int {
	return cmp.Or(
		strings.Compare(a.Namespace, b.Namespace), cli.Natural(a.Graph, b.Graph), cli.Natural(a.Component, b.Component),
		cmp.Compare(a.Replica, b.Replica), cmp.Compare(a.Index, b.Index), strings.Compare(a.Name, b.Name),
	)
}

// groupPods names pods for people, with related pods in one text:
//
//	Frontend-0..2,5
//	Worker-1 (leader, workers 1..3)
//	Worker-2 (worker 1), not ready
//
// prefix returns the name of a pod's graph, or "".
func groupPods(pods []Pod, prefix func(Pod) string) []string {
	type key struct {
		namespace, graph, component, state string
		multinode                          bool
		replica                            int32
	}
	var order []key
	members := map[key][]Pod{}
	for _, p := range slices.SortedFunc(slices.Values(pods), comparePods) {
		k := key{namespace: p.Namespace, graph: p.Graph, component: p.Component, state: p.State, multinode: p.Role != render.RoleMain}
		if k.multinode {
			k.replica = p.Replica
		}
		if members[k] == nil {
			order = append(order, k)
		}
		members[k] = append(members[k], p)
	}
	texts := make([]string, 0, len(order))
	for _, k := range order {
		text := prefix(members[k][0]) + k.component + "-"
		if k.multinode {
			text += fmt.Sprintf("%d (%s)", k.replica, rolesText(members[k]))
		} else {
			text += ranges(members[k], func(p Pod) int32 { return p.Replica })
		}
		if k.state != "" {
			text += ", " + k.state
		}
		texts = append(texts, text)
	}
	return texts
}

// rolesText returns "leader, workers 1..3" for pods of one replica, in index order.
func rolesText(pods []Pod) string {
	var parts []string
	workers := slices.Clone(pods)
	if pods[0].Role == render.RoleLeader {
		parts, workers = append(parts, render.RoleLeader), workers[1:]
	}
	switch len(workers) {
	case 0:
	case 1:
		parts = append(parts, fmt.Sprintf("%s %d", render.RoleWorker, workers[0].Index))
	default:
		parts = append(parts, render.RoleWorker+"s "+ranges(workers, func(p Pod) int32 { return p.Index }))
	}
	return strings.Join(parts, ", ")
}

// ranges returns "0..2,5" for ascending numbers.
func ranges(pods []Pod, number func(Pod) int32) string {
	numbers := make([]int, 0, len(pods))
	for _, p := range pods {
		numbers = append(numbers, int(number(p)))
	}
	return text.Ranges(numbers)
}
