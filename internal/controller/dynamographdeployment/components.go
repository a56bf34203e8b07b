// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package dynamographdeployment

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/ptr"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/limit"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/replicas"
)

// component has the actual and the wanted state of a component.
type component struct {
	name string
	// group is nil until the group is created.
	group *trellisv1alpha1.ScalingGroup
	// desired is the wanted number of replicas, revision their wanted revision, and restart their wanted restart. If the deployment cannot
	// be resolved, revision and restart are nil and are not compared.
	desired  int32
	revision *string
	restart  *trellisv1alpha1.Restart
}

// lookAt pairs every component of the deployment with its scaling group, sorted by name. wanted is nil if the deployment cannot be
// resolved.
func lookAt(o observed, wanted *render.Graph) []component {
	out := make([]component, 0, len(o.dgd.Spec.Components))
	for _, name := range sortedNames(o) {
		out = append(out, component{name: name, group: o.groups[name], desired: replicas.Of(o.settled.Component(name))})
	}
	if wanted == nil {
		return out
	}
	for i := range out {
		if at := slices.IndexFunc(wanted.Components, func(s render.Component) bool { return s.Name == out[i].name }); at >= 0 {
			out[i].revision, out[i].restart = &wanted.Components[at].Revision, wanted.Components[at].Restart
		}
	}
	return out
}

// behind reports whether the group's counts do not cover the current deployment yet: the group's spec is older, or the group's controller
// has not observed the spec.
func behind(s component) bool {
	return s.group == nil || s.group.Status.ObservedGeneration != s.group.Generation || s.group.Spec.Replicas != s.desired || s.otherRevision()
}

// otherRevision reports whether the group does not have the wanted revision or restart yet.
func (s component) otherRevision() bool {
	return s.revision != nil && (s.group.Spec.Revision != *s.revision || !equality.Semantic.DeepEqual(s.group.Spec.Restart, s.restart))
}

// refused returns the reason why the API server refuses pods of the group; "" if it refuses none.
func (s component) refused() string {
	if c := meta.FindStatusCondition(s.group.Status.Conditions, trellisv1alpha1.ConditionPodsInSync); c != nil && c.Status == "False" {
		return c.Message
	}
	return ""
}

// maxUnhealthy bounds the text about the failing pods of one component, in bytes.
const maxUnhealthy = 300

// unhealthy describes which replicas of the group fail, or which of its pods do not start; "" for none.
func (s component) unhealthy() string {
	if c := meta.FindStatusCondition(s.group.Status.Conditions, trellisv1alpha1.ConditionPodsHealthy); c != nil && c.Status == "False" {
		return limit.Middle(c.Message, maxUnhealthy)
	}
	return ""
}

// rolling reports whether replicas of an older revision still exist, or their successors do not serve yet.
func (s component) rolling() bool {
	return meta.IsStatusConditionFalse(s.group.Status.Conditions, trellisv1alpha1.ConditionRolledOut) ||
		s.group.Status.UpdatedReplicas < s.group.Status.ReadyReplicas
}

// notReady returns the reason why the component is not ready; "" if it is ready. A component is ready if all its replicas exist, are Ready
// and have the wanted revision, and no further replicas exist, except successors during moves.
func (s component) notReady() string {
	if s.group == nil {
		return fmt.Sprintf("scalinggroup for component %s: not created yet", s.name)
	}
	status := s.group.Status
	what := ""
	switch why := s.refused(); {
	case behind(s):
		what = s.change()
	case why != "":
		what = why
	case status.UpdatedReplicas < s.desired:
		what = fmt.Sprintf("desired=%d, updated=%d", s.desired, status.UpdatedReplicas)
	case status.ReadyReplicas < s.desired:
		what = fmt.Sprintf("desired=%d, ready=%d", s.desired, status.ReadyReplicas)
	case status.Replicas > s.desired && len(status.Moves) == 0: // a move creates the successor first
		what = fmt.Sprintf("desired=%d, still there=%d", s.desired, status.Replicas)
	default:
		return ""
	}
	if why := s.unhealthy(); why != "" && !behind(s) {
		what += ": " + why
	}
	return fmt.Sprintf("scalinggroup/%s: %s", s.group.Name, what)
}

// change describes the update or scaling that the counts in the group's status do not show yet.
func (s component) change() string {
	switch spec, status := s.group.Spec, s.group.Status; {
	case s.otherRevision():
		return "being updated"
	case spec.Replicas != s.desired:
		return fmt.Sprintf("being scaled from %d to %d replicas", spec.Replicas, s.desired)
	case status.Replicas != s.desired:
		return fmt.Sprintf("being scaled from %d to %d replicas", status.Replicas, s.desired)
	}
	return "being updated"
}

func summaryOf(components []component) string {
	ready := 0
	for _, s := range components {
		if s.notReady() == "" {
			ready++
		}
	}
	return fmt.Sprintf("%d/%d", ready, len(components))
}

// componentStatuses returns the statuses of all components. cut has a text for each component whose placements do not all fit into the
// status, with the number of listed placements.
func componentStatuses(o observed, components []component) (out map[string]nvidiav1beta1.ComponentStatus, cut []string) {
	out = map[string]nvidiav1beta1.ComponentStatus{}
	places, cut := placesOf(o, components)
	replacing := workersChange(components)
	for _, s := range components {
		if s.group == nil {
			continue
		}
		before := o.dgd.Status.Components[s.name]
		status := s.status(before)
		if replacing && before.RuntimeNamespace != "" {
			// the old namespace stays until all workers are of the new generation, because the planner reads the workers' metrics by this
			// namespace
			status.RuntimeNamespace = before.RuntimeNamespace
		}
		status.Placements = places[s.name]
		if shape, known := o.shapes.of[s.name]; known {
			status.GPUsPerEngine, status.GPUsPerReplica = ptr.To(shape.PerEngine), ptr.To(shape.PerReplica)
		}
		out[s.name] = status
	}
	return out, cut
}

// status returns the component's status. Until the group has the wanted revision, its updated replicas are of an earlier revision and are
// not counted. Otherwise a client that compares desired, updated and available replicas would conclude that the rollout is complete.
func (s component) status(before nvidiav1beta1.ComponentStatus) nvidiav1beta1.ComponentStatus {
	sg := s.group
	out := nvidiav1beta1.ComponentStatus{
		ComponentKind: nvidiav1beta1.ComponentKindScalingGroup, ComponentNames: []string{sg.Name},
		Replicas: sg.Status.Replicas, UpdatedReplicas: sg.Status.UpdatedReplicas,
		ReadyReplicas: ptr.To(sg.Status.ReadyReplicas), AvailableReplicas: ptr.To(sg.Status.AvailableReplicas),
		ScheduledReplicas: ptr.To(sg.Status.ScheduledReplicas),
		RuntimeNamespace:  render.RuntimeNamespace(sg),
	}
	switch {
	case s.otherRevision():
		out.UpdatedReplicas = 0
	case sg.Status.ObservedGeneration != sg.Generation:
		out.UpdatedReplicas = min(out.UpdatedReplicas, before.UpdatedReplicas)
	}
	return out
}
