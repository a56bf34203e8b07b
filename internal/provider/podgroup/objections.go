// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package podgroup

import (
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/limit"
	"github.com/trellis-k8s/trellis/internal/render"
)

// Objections returns the kube-scheduler's objections to unbound pods, by UID. An objection consists of the scheduler's messages on the pod
// and its PodGroup. If there are no messages, it is the reason why the scheduler cannot evaluate the PodGroup. groups are the graph's
// PodGroups; the list is complete if watched is true. all are the graph's pods.
func Objections(groups []schedulingv1beta1.PodGroup, watched bool, unbound, all []*corev1.Pod) map[types.UID]gang.Objection {
	known := sorted(groups, watched, all)
	out := map[types.UID]gang.Objection{}
	for _, pod := range unbound {
		if o := known.objection(pod); o.Message != "" {
			out[pod.UID] = o
		}
	}
	return out
}

// seen holds the PodGroups of a graph.
type seen struct {
	watched bool
	byName  map[string]*schedulingv1beta1.PodGroup
	// members maps the name of each tree's root to the PodGroups in the tree.
	members map[string][]*schedulingv1beta1.PodGroup
	// released maps the name of a PodGroup to the number of its released pods.
	released map[string]int32
}

func sorted(groups []schedulingv1beta1.PodGroup, watched bool, all []*corev1.Pod) seen {
	s := seen{
		watched: watched, byName: map[string]*schedulingv1beta1.PodGroup{}, members: map[string][]*schedulingv1beta1.PodGroup{},
		released: map[string]int32{},
	}
	for i := range groups {
		group := &groups[i]
		s.byName[group.Name] = group
		if parent := ptr.Deref(group.Spec.ParentCompositePodGroupName, ""); parent != "" {
			s.members[parent] = append(s.members[parent], group)
		}
	}
	for _, pod := range all {
		if pod.DeletionTimestamp == nil && !render.GateClosed(pod) {
			s.released[GroupOf(pod)]++
		}
	}
	return s
}

func (s seen) objection(pod *corev1.Pod) gang.Objection {
	if pod.Status.NominatedNodeName != "" {
		return gang.Objection{} // it waits until its preempted pods have gone
	}
	group := s.byName[GroupOf(pod)]
	if said := words(pod, group); said != "" {
		return gang.Objection{Message: "the kube-scheduler reports: " + limit.Text(said, longest)}
	}
	switch {
	case !s.watched:
		return gang.Objection{}
	case group == nil:
		return gang.Objection{Passing: true, Message: fmt.Sprintf("its PodGroup %s is gone", GroupOf(pod))}
	}
	return gang.Objection{Passing: true, Message: s.incomplete(group)}
}

// longest is the maximum length of the scheduler's message, which would otherwise grow with the number of nodes and reasons.
const longest = 400

// words returns the scheduler's last messages on the pod and its PodGroup, without duplicates.
func words(pod *corev1.Pod, group *schedulingv1beta1.PodGroup) string {
	var said []string
	add := func(message string) {
		message = strings.TrimSpace(message)
		if message != "" && !strings.Contains(strings.Join(said, "; "), message) {
			said = append(said, message)
		}
	}
	if group != nil {
		if c := meta.FindStatusCondition(group.Status.Conditions, schedulingv1beta1.PodGroupInitiallyScheduled); c != nil &&
			c.Status == metav1.ConditionFalse {
			add(c.Message)
		}
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse &&
			(c.Reason == corev1.PodReasonUnschedulable || c.Reason == corev1.PodReasonSchedulerError) {
			add(c.Message)
		}
	}
	return strings.Join(said, "; ")
}

// incomplete describes the members that a PodGroup or its tree lacks; "" if it lacks none. Without them, the gang cannot be bound. A
// missing member was lost before the gang was bound, or is still gated. The other members would wait forever, because the successor of a
// lost member has another PodGroup.
func (s seen) incomplete(group *schedulingv1beta1.PodGroup) string {
	members := []*schedulingv1beta1.PodGroup{group}
	if parent := group.Spec.ParentCompositePodGroupName; parent != nil {
		members = s.members[*parent]
		if wanted, _ := strconv.Atoi(group.Annotations[annotationGroups]); len(members) < wanted {
			return fmt.Sprintf("its gang has %d of %d pod groups", len(members), wanted)
		}
	}
	for _, member := range members {
		gang := member.Spec.SchedulingPolicy.Gang
		if gang != nil && s.released[member.Name] < gang.MinCount {
			return fmt.Sprintf("%d of the %d pods of %s in its gang are there", s.released[member.Name], gang.MinCount, member.Name)
		}
	}
	return ""
}
