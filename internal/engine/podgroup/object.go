// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package podgroup

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-k8s/trellis/internal/engine"
	"github.com/trellis-k8s/trellis/internal/engine/gates"
	"github.com/trellis-k8s/trellis/internal/graph"
)

// Object implements engine.Placer: the words of the scheduler on the pod and on its group, or else what keeps the scheduler from looking
// at the group at all.
func (Placer) Object(ctx context.Context, own client.Reader, pod *corev1.Pod, all []*corev1.Pod) engine.Objection {
	if pod.Status.NominatedNodeName != "" {
		return engine.Objection{} // it waits for those who make room
	}
	group := &schedulingv1beta1.PodGroup{}
	watched := own != nil
	missing := watched && own.Get(ctx, types.NamespacedName{Namespace: pod.Namespace, Name: groupOf(pod)}, group) != nil
	if said := words(pod, group); said != "" {
		return engine.Objection{Message: "the kube-scheduler says: " + short(said)}
	}
	switch {
	case !watched:
		return engine.Objection{}
	case missing:
		return engine.Objection{Passing: true, Message: fmt.Sprintf("its PodGroup %s is gone", groupOf(pod))}
	}
	return engine.Objection{Passing: true, Message: incomplete(ctx, own, group, all)}
}

// longest is how much is passed on of what the scheduler says: with many nodes and reasons that is long.
const longest = 400

func short(s string) string {
	if len(s) <= longest {
		return s
	}
	return strings.ToValidUTF8(s[:longest-3], "") + "..."
}

// words are what the scheduler said last, of the pod and of its group, each thing once.
func words(pod *corev1.Pod, group *schedulingv1beta1.PodGroup) string {
	var said []string
	add := func(message string) {
		message = strings.TrimSpace(message)
		if message != "" && !strings.Contains(strings.Join(said, "; "), message) {
			said = append(said, message)
		}
	}
	if c := meta.FindStatusCondition(group.Status.Conditions, schedulingv1beta1.PodGroupInitiallyScheduled); c != nil && c.Status == metav1.ConditionFalse {
		add(c.Message)
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse &&
			(c.Reason == corev1.PodReasonUnschedulable || c.Reason == corev1.PodReasonSchedulerError) {
			add(c.Message)
		}
	}
	return strings.Join(said, "; ")
}

// incomplete says that a tree cannot be taken because members of it are not there: one was lost before the gang was bound, or is still
// gated. The rest would wait for it for ever, since its successor is of another group.
func incomplete(ctx context.Context, own client.Reader, group *schedulingv1beta1.PodGroup, all []*corev1.Pod) string {
	members := []schedulingv1beta1.PodGroup{*group}
	wanted := 1
	if parent := group.Spec.ParentCompositePodGroupName; parent != nil {
		groups := &schedulingv1beta1.PodGroupList{}
		if err := own.List(ctx, groups, client.InNamespace(group.Namespace), client.MatchingLabels{graph.LabelGraph: group.Labels[graph.LabelGraph]}); err != nil {
			return ""
		}
		members = members[:0]
		for i := range groups.Items {
			if ptr.Deref(groups.Items[i].Spec.ParentCompositePodGroupName, "") == *parent {
				members = append(members, groups.Items[i])
			}
		}
		wanted, _ = strconv.Atoi(group.Annotations[annotationGroups])
	}
	if len(members) < wanted {
		return fmt.Sprintf("its gang has %d of %d pod groups", len(members), wanted)
	}
	released := map[string]int32{}
	for _, pod := range all {
		if pod.DeletionTimestamp == nil && !gates.Closed(pod) {
			released[groupOf(pod)]++
		}
	}
	for i := range members {
		gang := members[i].Spec.SchedulingPolicy.Gang
		if gang != nil && released[members[i].Name] < gang.MinCount {
			return fmt.Sprintf("%d of the %d pods of %s in its gang are there", released[members[i].Name], gang.MinCount, members[i].Name)
		}
	}
	return ""
}
