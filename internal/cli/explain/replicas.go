// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/cli/live"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/topology"
	"github.com/trellis-k8s/trellis/internal/whatif"
)

// replicas describes each replica from its pods and, if there is a plan, from the plan. Without a plan, the existing scaling groups
// determine which replicas are wanted.
func (s *Subject) replicas(plan whatif.Plan) []Replica {
	groups := plan.Groups
	if len(groups) == 0 {
		groups = s.groups()
	}
	planned := map[string]whatif.Replica{}
	for _, r := range plan.Replicas {
		planned[fmt.Sprintf("%s-%d", r.Component, r.Ordinal)] = r
	}
	pods, record := s.podsByGroup(), s.RecordOf(s.DGD)
	list := []Replica{}
	for _, sg := range slices.SortedFunc(slices.Values(groups), func(a, b *trellisv1alpha1.ScalingGroup) int {
		return strings.Compare(a.Spec.Component, b.Spec.Component)
	}) {
		if !specs.Named(sg.Spec.Provider).Planned {
			continue // Trellis does not make its pods
		}
		byOrdinal := map[int][]*corev1.Pod{}
		ordinals := gang.Ordinals(sg, pods[sg.Name], record.Replicas(sg.Spec.Component))
		for _, pod := range pods[sg.Name] {
			if ordinal, _, ok := render.ReplicaOf(pod); ok {
				byOrdinal[int(ordinal)] = append(byOrdinal[int(ordinal)], pod)
				ordinals = append(ordinals, int(ordinal)) // including replicas that are being scaled in
			}
		}
		slices.Sort(ordinals)
		for _, ordinal := range slices.Compact(ordinals) {
			r := s.replica(sg, ordinal, byOrdinal[ordinal])
			if place, recorded := record.PlaceOf(gang.Key{Component: r.Component, Ordinal: ordinal}); recorded && r.bound() {
				r.Domain = place.Domain.String()
			}
			if p, ok := planned[fmt.Sprintf("%s-%d", sg.Spec.Component, ordinal)]; ok && s.mayPlan() {
				r.compare(p)
			}
			if r.Domain == "" && r.State != StateRunning {
				r.PreemptedBy = s.preemptedBy(byOrdinal[ordinal])
			}
			list = append(list, r)
		}
	}
	return list
}

// podsByGroup returns the deployment's pods by the name of their scaling group.
func (s *Subject) podsByGroup() map[string][]*corev1.Pod {
	out := map[string][]*corev1.Pod{}
	for _, pod := range s.Pods {
		if pod.Namespace == s.DGD.Namespace && pod.Labels[render.LabelGraph] == render.LabelValue(s.DGD.Name) {
			out[pod.Labels[render.LabelScalingGroup]] = append(out[pod.Labels[render.LabelScalingGroup]], pod)
		}
	}
	return out
}

// replica describes one replica by its pods.
func (s *Subject) replica(sg *trellisv1alpha1.ScalingGroup, ordinal int, pods []*corev1.Pod) Replica {
	r := Replica{Component: sg.Spec.Component, Replica: ordinal, Nodes: nodesOf(pods)}
	size := int(render.PodsPerReplica(sg))
	if len(pods) > 0 {
		size = render.ReplicaSize(sg, pods[0])
	}
	closed, unbound, unready := pick(pods, render.GateClosed), pick(pods, isUnbound), pick(pods, isUnready)
	switch {
	case len(pick(pods, isLeaving)) > 0:
		r.State, r.Since = StateLeaving, earliest(pick(pods, isLeaving), func(p *corev1.Pod) *metav1.Time { return p.DeletionTimestamp })
		r.Detail = s.whyLeaving(pick(pods, isLeaving))
	case len(pods) < size:
		r.State, r.Since, r.Detail = StateCreating, earliest(pods, created), fmt.Sprintf("%d of %d pods made", len(pods), size)
	case len(closed) > 0:
		r.State, r.Since, r.Detail = StateGated, earliest(closed, created), gang.AdmissionWait(closed)
		if r.Detail == "" && len(closed) < len(pods) {
			r.Detail = fmt.Sprintf("%d of %d pods released", len(pods)-len(closed), len(pods))
		}
	case len(unbound) > 0:
		r.State, r.Since, r.Detail = StateReleased, earliest(unbound, unscheduledSince), whyUnbound(unbound)
		if !render.Gated(sg) {
			r.State = StatePending
		}
	case len(unready) > 0:
		r.State, r.Since = StateNotReady, earliest(unready, unreadySince)
		r.Detail = fmt.Sprintf("%d of %d pods not ready: %s", len(unready), len(pods), whyUnready(unready[0]))
	default:
		r.State = StateRunning
	}
	return r
}

// bound reports whether all pods of the replica are bound.
func (r *Replica) bound() bool { return r.State == StateRunning || r.State == StateNotReady }

// compare adds the plan's result to a replica: the domain of a running replica, or the place that the plan finds for a waiting replica.
func (r *Replica) compare(p whatif.Replica) {
	switch {
	case p.Running:
		r.Domain = cmp.Or(p.Domain.String(), r.Domain)
	case p.Reason == nil:
		r.WouldGo = cmp.Or(p.Domain.String(), nodesText(p.Pods))
		if p.Preempts != nil {
			r.Preempts = fmt.Sprintf("%d of %s", p.Preempts.Pods, gang.Victims(p.Preempts))
		}
	}
}

func nodesText(pods []whatif.Pod) string {
	var nodes []string
	for _, pod := range pods {
		if pod.Node != "" && !slices.Contains(nodes, pod.Node) {
			nodes = append(nodes, pod.Node)
		}
	}
	return some(nodes, maxNodes)
}

func pick(pods []*corev1.Pod, is func(*corev1.Pod) bool) []*corev1.Pod {
	var list []*corev1.Pod
	for _, pod := range pods {
		if is(pod) {
			list = append(list, pod)
		}
	}
	slices.SortFunc(list, func(a, b *corev1.Pod) int {
		return cmp.Or(cmp.Compare(len(a.Name), len(b.Name)), strings.Compare(a.Name, b.Name))
	})
	return list
}

func isUnbound(pod *corev1.Pod) bool { return pod.Spec.NodeName == "" }

func isLeaving(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded
}

func condition(pod *corev1.Pod, kind corev1.PodConditionType) *corev1.PodCondition {
	i := slices.IndexFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == kind })
	if i < 0 {
		return nil
	}
	return &pod.Status.Conditions[i]
}

func isUnready(pod *corev1.Pod) bool {
	c := condition(pod, corev1.PodReady)
	return c == nil || c.Status != corev1.ConditionTrue
}

func created(pod *corev1.Pod) *metav1.Time { return &pod.CreationTimestamp }

func unscheduledSince(pod *corev1.Pod) *metav1.Time { return since(pod, corev1.PodScheduled) }

func unreadySince(pod *corev1.Pod) *metav1.Time { return since(pod, corev1.PodReady) }

func since(pod *corev1.Pod, kind corev1.PodConditionType) *metav1.Time {
	if c := condition(pod, kind); c != nil && !c.LastTransitionTime.IsZero() {
		return &c.LastTransitionTime
	}
	return &pod.CreationTimestamp
}

func earliest(pods []*corev1.Pod, when func(*corev1.Pod) *metav1.Time) *metav1.Time {
	var first *metav1.Time
	for _, pod := range pods {
		if t := when(pod); t != nil && !t.IsZero() && (first == nil || t.Before(first)) {
			first = t
		}
	}
	return first
}

// whyLeaving names a pod that does not terminate in time, and its node; "" for none.
func (s *Subject) whyLeaving(pods []*corev1.Pod) string {
	ready := func(name string) bool { // unknown without the right to list nodes
		return s.Lacks(live.Nodes) || slices.ContainsFunc(s.Nodes, func(n *corev1.Node) bool { return n.Name == name && topology.Ready(n) })
	}
	for _, pod := range pods {
		if why := gang.NotEnding(pod, s.Now, ready); why != "" {
			return why
		}
	}
	return ""
}

// whyUnbound returns the kube-scheduler's first message about an unbound pod.
func whyUnbound(pods []*corev1.Pod) string {
	for _, pod := range pods {
		if c := condition(pod, corev1.PodScheduled); c != nil && c.Status != corev1.ConditionTrue && c.Message != "" {
			return pod.Name + ": " + bounded(c.Message)
		}
	}
	return fmt.Sprintf("waiting for the scheduler: %s", pods[0].Name)
}

// whyUnready returns the kubelet's message about the first container that does not run as expected.
func whyUnready(pod *corev1.Pod) string {
	for _, statuses := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for i := range statuses {
			status := &statuses[i]
			switch {
			case status.State.Waiting != nil && status.State.Waiting.Reason != "PodInitializing":
				return fmt.Sprintf("%s, container %s: %s", pod.Name, status.Name, status.State.Waiting.Reason)
			case status.State.Terminated != nil && status.State.Terminated.ExitCode != 0:
				return fmt.Sprintf("%s, container %s ended with code %d", pod.Name, status.Name, status.State.Terminated.ExitCode)
			case status.State.Running != nil && !status.Ready:
				return fmt.Sprintf("%s, container %s runs and is not ready", pod.Name, status.Name)
			}
		}
	}
	return pod.Name
}

func nodesOf(pods []*corev1.Pod) []string {
	var nodes []string
	for _, pod := range pods {
		if pod.Spec.NodeName != "" {
			nodes = append(nodes, pod.Spec.NodeName)
		}
	}
	slices.Sort(nodes)
	return slices.Compact(nodes)
}
