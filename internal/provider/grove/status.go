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

// Levels is Grove's report on the topology levels, converted to the reasons of Trellis' condition.
type Levels struct {
	Available       bool
	Reason, Message string
}

// TopologyLevels reads Grove's condition TopologyLevelsUnavailable; false if Grove has not evaluated the levels. Only the status False
// means that the levels exist. Grove sets Unknown when the topology is missing, and then also removes the constraint from future pods.
// TopologyLevels ignores False if it is about an earlier generation of the set. It accepts any other status regardless of the generation,
// because no write of Trellis restores the levels.
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

// Refusal returns Grove's error if Grove could not make the deployment's objects, otherwise "".
func Refusal(pcs *PodCliqueSet) string {
	if len(pcs.Status.LastErrors) == 0 {
		return ""
	}
	last := pcs.Status.LastErrors[0]
	return external.Message(fmt.Sprintf("Grove: %s: %s", last.Code, last.Description))
}

// Component is the state of one component in Grove's objects. The numbers are counts of replicas.
type Component struct {
	// Kind and Name of the component's object.
	Kind, Name                                         string
	Replicas, Updated, Scheduled, Ready, ScheduleGated int32
	// Done: all wanted replicas exist, are ready and have the current template, and there are no other replicas.
	Done bool
	// Waiting is the reason why replicas are not scheduled; "" if all are scheduled.
	Waiting string
}

// SingleNode returns the state of a single-node component; clique is nil until Grove has created it.
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

// Multinode returns the state of a multinode component; group is nil until Grove has created it.
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

// Refused returns the scheduler's most frequent message about Grove's unbound pods; "" for none. It reads the pods, because Grove's own
// objects contain only counts. It ignores gated pods: they wait for their gang, so messages about them have no meaning yet.
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
