// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/cli/live"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/replicas"
)

// Observed is one deployment with its ScalingGroups and pods at one time, the input of a report.
type Observed struct {
	Graph *nvidiav1beta1.DynamoGraphDeployment
	// Pods of the graph. PodsHidden: the user may not list pods.
	Pods       []corev1.Pod
	PodsHidden bool
	// Groups are the graph's ScalingGroups. GroupsHidden: ScalingGroups are not installed, or the user may not list them.
	Groups       []trellisv1alpha1.ScalingGroup
	GroupsHidden bool
	// Operator is the state of the operator; nil if it is running.
	Operator *live.Heartbeat
}

// Status is the progress of a graph.
type Status struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Done: the graph is ready and fully updated, and the operator has observed all changes.
	Done bool `json:"done"`
	// Ready: the condition Ready is True, and the pods do not contradict it.
	Ready bool `json:"ready"`
	// Outdated: according to the pods, fewer replicas are ready than the status counts.
	Outdated bool   `json:"outdated,omitempty"`
	State    string `json:"state"`
	// Reason and Message of the condition Ready.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// Behind: the operator has not observed the newest generation of the spec, so the status is about an older generation.
	Behind bool `json:"behind,omitempty"`
	// Deleting: the graph is being deleted.
	Deleting bool `json:"deleting,omitempty"`
	// Domain of the entire graph.
	Domain     string      `json:"domain,omitempty"`
	Components []Component `json:"services"`
	// Update and Restart describe the update and the restart that are in progress, or the last update and the last restart.
	Update  *nvidiav1beta1.RollingUpdateStatus `json:"rollingUpdate,omitempty"`
	Restart *nvidiav1beta1.RestartStatus       `json:"restart,omitempty"`
	// Conditions that report a problem, except for Ready.
	Conditions []Condition `json:"conditions,omitempty"`
	// PodsHidden: the states of single pods are unknown. GroupsHidden: the reasons why pods do not start are unknown.
	PodsHidden   bool `json:"podsHidden,omitempty"`
	GroupsHidden bool `json:"groupsHidden,omitempty"`
	// Operator is present if the operator does not renew its Lease, or if its state is unknown.
	Operator *live.Heartbeat `json:"operator,omitempty"`
}

// Component is one component.
type Component struct {
	Name    string `json:"name"`
	Desired int32  `json:"desired"`
	// Replicas is the number of existing replicas. Of these, Updated run the current revision, Scheduled have nodes, and Ready serve. Each
	// number is from the status, unless the pods show a lower number.
	Replicas  int32 `json:"replicas"`
	Updated   int32 `json:"updated"`
	Scheduled int32 `json:"scheduled"`
	Ready     int32 `json:"ready"`
	// Where lists the distinct domains of the replicas.
	Where []Place `json:"where,omitempty"`
	// Generations of workers, if there are several.
	Generations []GenerationCount `json:"generations,omitempty"`
	// Waiting lists what the component waits for.
	Waiting []string `json:"waiting,omitempty"`
	// Unhealthy contains the condition PodsHealthy of the component's ScalingGroups, if it is False. The condition reports which replicas
	// fail, which pods do not start, are not Ready or do not terminate, and the reasons.
	Unhealthy []Condition `json:"unhealthy,omitempty"`

	// outdated: according to the pods, fewer replicas are ready than the status counts.
	outdated bool
}

// Place is a domain and the number of replicas in it.
type Place struct {
	Domain   string `json:"domain"`
	Replicas int    `json:"replicas"`
}

// Condition is a condition that reports a problem.
type Condition struct {
	Type    string                 `json:"type"`
	Status  metav1.ConditionStatus `json:"status"`
	Reason  string                 `json:"reason"`
	Message string                 `json:"message"`
}

// Build makes the report. Components are sorted by name.
func Build(s Observed) Status {
	status := &s.Graph.Status
	r := Status{
		Namespace: s.Graph.Namespace, Name: s.Graph.Name, State: string(status.State), Components: []Component{},
		Behind: status.ObservedGeneration != s.Graph.Generation, Update: status.RollingUpdate, Restart: status.Restart, PodsHidden: s.PodsHidden,
		GroupsHidden: s.GroupsHidden, Deleting: s.Graph.DeletionTimestamp != nil, Operator: s.Operator,
	}
	if status.Placement != nil {
		r.Domain = status.Placement.Domain
	}
	r.Conditions = problems(status.Conditions)
	if ready := meta.FindStatusCondition(status.Conditions, nvidiav1beta1.ConditionReady); ready != nil {
		r.Ready, r.Reason, r.Message = ready.Status == metav1.ConditionTrue, ready.Reason, ready.Message
	}
	for _, c := range render.Components(s.Graph) {
		component := componentOf(s, c)
		r.Components, r.Outdated = append(r.Components, component), r.Outdated || component.outdated
	}
	r.Ready = r.Ready && !r.Outdated
	r.Done = r.Ready && !r.Behind && !r.Deleting && !restarting(s.Graph) && !slices.ContainsFunc(r.Components, Component.unfinished) &&
		(r.Update == nil || r.Update.Phase != nvidiav1beta1.RollingUpdateInProgress)
	return r
}

// problems returns the conditions that report a problem, except for Ready.
func problems(conditions []metav1.Condition) (out []Condition) {
	for _, c := range conditions {
		bad := metav1.ConditionFalse
		if c.Type == nvidiav1beta1.ConditionOwnershipConflict {
			bad = metav1.ConditionTrue
		}
		if c.Type != nvidiav1beta1.ConditionReady && c.Status == bad {
			out = append(out, Condition{c.Type, c.Status, c.Reason, c.Message})
		}
	}
	return out
}

// restarting reports whether a requested restart is not complete.
func restarting(dgd *nvidiav1beta1.DynamoGraphDeployment) bool {
	if dgd.Status.Restart == nil {
		return false
	}
	phase := dgd.Status.Restart.Phase
	return phase == nvidiav1beta1.RestartPending || phase == nvidiav1beta1.RestartRestarting
}

// unhealthy returns the condition PodsHealthy of a ScalingGroup if it is False.
func unhealthy(conditions []metav1.Condition) []Condition {
	c := meta.FindStatusCondition(conditions, trellisv1alpha1.ConditionPodsHealthy)
	if c == nil || c.Status != metav1.ConditionFalse {
		return nil
	}
	return []Condition{{c.Type, c.Status, c.Reason, c.Message}}
}

// failing reports whether replicas fail, or pods do not start or do not become Ready.
func (s Component) failing() bool {
	return slices.ContainsFunc(s.Unhealthy, func(c Condition) bool { return c.Reason != trellisv1alpha1.ReasonPodsNotEnding })
}

func (s Component) unfinished() bool {
	return s.Ready != s.Desired || s.Updated != s.Desired || s.Replicas != s.Desired
}

func componentOf(s Observed, c *nvidiav1beta1.ComponentSpec) Component {
	name := c.Name
	counted, known := s.Graph.Status.Components[name]
	out := Component{
		Name: name, Desired: replicas.Of(c),
		Replicas: counted.Replicas, Updated: counted.UpdatedReplicas,
		Ready: ptr.Deref(counted.ReadyReplicas, 0), Scheduled: ptr.Deref(counted.ScheduledReplicas, 0),
	}
	for _, p := range counted.Placements {
		if i := slices.IndexFunc(out.Where, func(w Place) bool { return w.Domain == p.Domain }); i >= 0 {
			out.Where[i].Replicas++
			continue
		}
		out.Where = append(out.Where, Place{p.Domain, 1})
	}
	if !known {
		out.Waiting = []string{"the operator to take it up"}
		return out
	}
	states := statesOf(s, c)
	if !s.PodsHidden && states != nil {
		there := int32(len(states))
		ready := int32(len(slices.DeleteFunc(slices.Collect(maps.Values(states)), func(r replicaState) bool { return r.state != forNothing })))
		out.outdated = ready < out.Ready
		out.Ready, out.Scheduled = min(out.Ready, ready), min(out.Scheduled, there)
		out.Replicas, out.Updated = min(out.Replicas, there), min(out.Updated, there)
	}
	out.Generations = generationsOf(s, name)
	for i := range s.Groups {
		if of := &s.Groups[i]; of.Spec.Component == name {
			out.Unhealthy = append(out.Unhealthy, unhealthy(of.Status.Conditions)...)
		}
	}
	out.Waiting = waitingFor(s, out, states)
	return out
}
