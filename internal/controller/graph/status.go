// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package graph

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/ptr"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/graph"
	"github.com/trellis-k8s/trellis/internal/scheduler"
)

// maxPlacements is how many replicas' places are listed per service.
const maxPlacements = 64

// statusOf sums up what the deployment has come to. wanted is nil when there is a problem; failure is what kept its children from
// being applied.
func statusOf(o observed, wanted *graph.Graph, p *problem, failure error) nvidiav1alpha1.DynamoGraphDeploymentStatus {
	status := *o.dgd.Status.DeepCopy()
	if p == nil && failure == nil {
		status.ObservedGeneration = o.dgd.Generation
	}
	status.Services, status.Summary = servicesOf(o)
	status.Placement = placementOf(o)
	status.Engine = o.engine.Name

	set(&status, o, topologyCondition(o))
	if drift := driftCondition(o); drift != nil {
		set(&status, o, drift)
	} else {
		meta.RemoveStatusCondition(&status.Conditions, nvidiav1alpha1.ConditionTopologyConstraintInSync)
	}
	if p != nil && p.reason == nvidiav1alpha1.ReasonInvalid {
		set(&status, o, no(nvidiav1alpha1.ConditionValid, p.reason, p.message))
	} else {
		meta.RemoveStatusCondition(&status.Conditions, nvidiav1alpha1.ConditionValid)
	}
	set(&status, o, engineCondition(o))
	if c := prerequisitesCondition(o); c != nil {
		set(&status, o, c)
	} else if p == nil {
		meta.RemoveStatusCondition(&status.Conditions, nvidiav1alpha1.ConditionPrerequisitesMet)
	}
	set(&status, o, placedCondition(o, p))
	ready := readyCondition(o, wanted, p, failure, meta.FindStatusCondition(status.Conditions, nvidiav1alpha1.ConditionPlaced))
	set(&status, o, ready)
	status.State = stateOf(ready, p, failure)
	return status
}

func stateOf(ready *condition, p *problem, failure error) nvidiav1alpha1.State {
	switch {
	case p != nil || failure != nil && !waitsForLeftovers(failure):
		return nvidiav1alpha1.StateFailed
	case ready.is:
		return nvidiav1alpha1.StateSuccessful
	}
	return nvidiav1alpha1.StatePending
}

func servicesOf(o observed) (services map[string]nvidiav1alpha1.ServiceStatus, summary string) {
	services = map[string]nvidiav1alpha1.ServiceStatus{}
	ready := 0
	for name := range o.dgd.Spec.Services {
		sg := o.groups[name]
		if sg == nil {
			continue
		}
		services[name] = serviceStatus(sg)
		if notReady(o, name) == "" {
			ready++
		}
	}
	return services, fmt.Sprintf("%d/%d", ready, len(o.dgd.Spec.Services))
}

func serviceStatus(sg *trellisv1alpha1.ScalingGroup) nvidiav1alpha1.ServiceStatus {
	s := nvidiav1alpha1.ServiceStatus{
		ComponentKind: nvidiav1alpha1.ComponentKindScalingGroup, ComponentName: sg.Name, ComponentNames: []string{sg.Name},
		Replicas: sg.Status.Replicas, UpdatedReplicas: sg.Status.UpdatedReplicas,
		ReadyReplicas: ptr.To(sg.Status.ReadyReplicas), AvailableReplicas: ptr.To(sg.Status.AvailableReplicas), ScheduledReplicas: ptr.To(sg.Status.ScheduledReplicas),
	}
	for _, p := range sg.Status.Placements {
		if p.Bound && len(s.Placements) < maxPlacements {
			s.Placements = append(s.Placements, nvidiav1alpha1.ReplicaPlacement{Replica: p.Replica, Domain: p.Domain})
		}
	}
	return s
}

// notReady says what keeps a service from serving as wanted, or "".
func notReady(o observed, name string) string {
	sg, service := o.groups[name], o.dgd.Spec.Services[name]
	desired := int32(1)
	if service != nil && service.Replicas != nil {
		desired = *service.Replicas
	}
	switch {
	case sg == nil:
		return fmt.Sprintf("scalinggroup for service %s: not created yet", name)
	case sg.Status.ObservedGeneration != sg.Generation || sg.Spec.Replicas != desired:
		return fmt.Sprintf("scalinggroup/%s: being updated", sg.Name)
	case meta.IsStatusConditionFalse(sg.Status.Conditions, trellisv1alpha1.ConditionPodsInSync):
		return fmt.Sprintf("scalinggroup/%s: %s", sg.Name, meta.FindStatusCondition(sg.Status.Conditions, trellisv1alpha1.ConditionPodsInSync).Message)
	case sg.Status.UpdatedReplicas < desired:
		return fmt.Sprintf("scalinggroup/%s: desired=%d, updated=%d", sg.Name, desired, sg.Status.UpdatedReplicas)
	case sg.Status.ReadyReplicas < desired:
		return fmt.Sprintf("scalinggroup/%s: desired=%d, ready=%d", sg.Name, desired, sg.Status.ReadyReplicas)
	case sg.Status.Replicas > desired:
		return fmt.Sprintf("scalinggroup/%s: desired=%d, still there=%d", sg.Name, desired, sg.Status.Replicas)
	}
	return ""
}

// placementOf is the graph domain as its members show it, and the score of the last placement.
func placementOf(o observed) *nvidiav1alpha1.PlacementStatus {
	if o.profileName() == "" {
		return nil
	}
	p := nvidiav1alpha1.PlacementStatus{}
	if o.dgd.Status.Placement != nil {
		p.Score = o.dgd.Status.Placement.Score
	}
	if o.judged && o.verdict.Score >= 0 {
		p.Score = ptr.To(o.verdict.Score)
	}
	p.Domain = graphDomain(o)
	if p.Domain == "" && o.judged {
		p.Domain = o.verdict.Domain.String()
	}
	if p.Domain == "" && p.Score == nil {
		return nil
	}
	return &p
}

func graphDomain(o observed) string {
	for _, name := range sortedNames(o) {
		sg := o.groups[name]
		if sg == nil || sg.Spec.Topology == nil {
			continue
		}
		level := scheduler.LevelsOf(sg.Spec.Topology).Index(sg.Spec.Topology.GraphPackDomain)
		if level < 0 {
			return ""
		}
		for _, p := range sg.Status.Placements {
			if path := strings.Split(p.Domain, "/"); p.Bound && len(path) > level {
				return strings.Join(path[:level+1], "/")
			}
		}
	}
	return ""
}

func sortedNames(o observed) []string {
	names := make([]string, 0, len(o.dgd.Spec.Services))
	for name := range o.dgd.Spec.Services {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
