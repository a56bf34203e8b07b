// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package grove

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/provider/external"
	"github.com/trellis-k8s/trellis/internal/provider/kai"
)

// Grove's conditions and reasons.
const (
	conditionLevelsUnavailable = "TopologyLevelsUnavailable"
	conditionScheduled         = "PodCliqueScheduled"
	groveTopologyNotFound      = "ClusterTopologyNotFound"
)

// Levels is Grove's report on the topology, in our terms and polarity.
type Levels struct {
	Available       bool
	Reason, Message string
}

// TopologyLevels reads Grove's condition TopologyLevelsUnavailable. Only a plain False means that the levels are there: Grove says Unknown
// when the topology is gone, and has then taken the constraint away from pods to come. That they are there counts only of the set as it is
// now; that they are not counts until Grove says otherwise, since nothing that Trellis writes brings them back. False: Grove has not
// judged.
func TopologyLevels(pcs *PodCliqueSet) (Levels, bool) {
	c := meta.FindStatusCondition(pcs.Status.Conditions, conditionLevelsUnavailable)
	if c == nil {
		return Levels{}, false
	}
	if c.Status == metav1.ConditionFalse {
		if c.ObservedGeneration != 0 && c.ObservedGeneration < pcs.Generation {
			return Levels{}, false
		}
		return Levels{true, nvidiav1beta1.ReasonAllTopologyLevelsAvailable, "All required topology levels are available in the cluster topology"},
			true
	}
	reason := nvidiav1beta1.ReasonTopologyLevelsUnavailable
	if c.Reason == groveTopologyNotFound {
		reason = nvidiav1beta1.ReasonTopologyDefinitionNotFound
	}
	return Levels{false, reason, external.Message(fmt.Sprintf("Grove: %s: %s; pods placed from now on are not constrained", c.Reason,
		c.Message))}, true
}

// Refusal is why Grove could not make the objects of the deployment, or "".
func Refusal(pcs *PodCliqueSet) string {
	if len(pcs.Status.LastErrors) == 0 {
		return ""
	}
	last := pcs.Status.LastErrors[0]
	return external.Message(fmt.Sprintf("Grove: %s: %s", last.Code, last.Description))
}

// Component is one component as Grove's objects show it, in replicas.
type Component struct {
	// Kind and Name of the object that stands for it.
	Kind, Name                                         string
	Replicas, Updated, Scheduled, Ready, ScheduleGated int32
	// Done: all replicas wanted are there, ready and of this template.
	Done bool
	// Waiting is why replicas are not scheduled, or "".
	Waiting string
}

// SingleNode reads a single-node component; clique is nil while Grove has not created it.
func SingleNode(g Input, sg *trellisv1alpha1.ScalingGroup, clique *PodClique) Component {
	s := g.component(sg)
	if clique == nil {
		s.Waiting = notMade(s)
		return s
	}
	s.Name = clique.Name
	in := clique.Status
	s.Replicas, s.Updated, s.Scheduled, s.Ready, s.ScheduleGated = in.Replicas, in.UpdatedReplicas, in.ScheduledReplicas, in.ReadyReplicas,
		in.ScheduleGatedReplicas
	s.Done = observed(in.ObservedGeneration, clique.Generation) && s.all(sg.Spec.Replicas)
	s.Waiting = waiting(s, sg, in.Conditions)
	return s
}

// Multinode reads a multinode component; group is nil while Grove has not created it.
func Multinode(g Input, sg *trellisv1alpha1.ScalingGroup, group *PodCliqueScalingGroup) Component {
	s := g.component(sg)
	if group == nil {
		s.Waiting = notMade(s)
		return s
	}
	s.Name = group.Name
	in := group.Status
	s.Replicas, s.Updated, s.Scheduled, s.Ready = in.Replicas, in.UpdatedReplicas, in.ScheduledReplicas, in.AvailableReplicas
	s.Done = observed(in.ObservedGeneration, group.Generation) && s.all(sg.Spec.Replicas)
	s.Waiting = waiting(s, sg, in.Conditions)
	return s
}

func (g Input) component(sg *trellisv1alpha1.ScalingGroup) Component {
	of := MadeOf(g, sg)
	return Component{Kind: of.Kind.Kind, Name: of.UsualName()}
}

func (s Component) all(wanted int32) bool {
	return s.Replicas == wanted && s.Updated == wanted && s.Ready == wanted
}

func observed(generation *int64, current int64) bool {
	return generation != nil && *generation >= current
}

func notMade(s Component) string {
	return fmt.Sprintf("Grove has not created %s %s yet", s.Kind, s.Name)
}

// Refused is what the scheduler says of pods that Grove has made and that are not bound, the word of most of them; "" when it says nothing.
// Grove's own objects only count. Pods behind Grove's gate wait for their gang: what is said of them is about nothing yet.
func Refused(pods []*corev1.Pod) string {
	words := map[string]int{}
	for _, pod := range pods {
		if pod.Spec.NodeName != "" || pod.DeletionTimestamp != nil || len(pod.Spec.SchedulingGates) > 0 || pod.Status.NominatedNodeName != "" {
			continue
		}
		for _, c := range pod.Status.Conditions {
			if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable &&
				!kai.Stale(c.Message) {
				words[schedulerOf(pod)+": "+c.Message]++
			}
		}
	}
	most := ""
	for _, word := range slices.Sorted(maps.Keys(words)) {
		if most == "" || words[word] > words[most] {
			most = word
		}
	}
	return external.Message(most)
}

func schedulerOf(pod *corev1.Pod) string {
	switch name := pod.Spec.SchedulerName; name {
	case kai.SchedulerName:
		return "KAI"
	case "", corev1.DefaultSchedulerName:
		return "the kube-scheduler"
	default:
		return name
	}
}

func waiting(s Component, sg *trellisv1alpha1.ScalingGroup, conditions []metav1.Condition) string {
	if s.Scheduled >= sg.Spec.Replicas {
		return ""
	}
	why := ""
	if c := meta.FindStatusCondition(conditions, conditionScheduled); c != nil && c.Status != metav1.ConditionTrue {
		why = ": " + c.Message
	}
	if s.ScheduleGated > 0 {
		why += fmt.Sprintf(" (%d wait for their gang)", s.ScheduleGated)
	}
	return external.Message(fmt.Sprintf("%s %s: %d of %d replicas scheduled%s", s.Kind, s.Name, s.Scheduled, sg.Spec.Replicas, why))
}
