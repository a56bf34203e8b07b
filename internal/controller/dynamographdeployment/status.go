// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package dynamographdeployment

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/ptr"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/render"
)

// statusOf returns the status of the deployment. wanted is nil if p is set. failure is the error from applying the children.
func statusOf(o observed, wanted *render.Graph, p *problem, failure error) nvidiav1beta1.DynamoGraphDeploymentStatus {
	status := *o.dgd.Status.DeepCopy()
	components := lookAt(o, wanted)
	if p == nil && failure == nil && !slices.ContainsFunc(components, behind) {
		status.ObservedGeneration = o.dgd.Generation
	}
	statuses, cut := componentStatuses(o, components)
	status.Components, status.Summary = statuses, summaryOf(components)
	setOrRemove(&status, o, nvidiav1beta1.ConditionPlacementsComplete, placementsCondition(cut))
	status.Placement = placementOf(o)
	status.Provider = o.provider.Name

	set(&status, o, topologyCondition(o))
	setOrRemove(&status, o, nvidiav1beta1.ConditionTopologyConstraintInSync, driftCondition(o))
	setOrRemove(&status, o, nvidiav1beta1.ConditionValid, validCondition(p))
	setOrRemove(&status, o, nvidiav1beta1.ConditionMemoryReadable, memoryCondition(o))
	setOrRemove(&status, o, nvidiav1beta1.ConditionWithinPodLimit, limitCondition(o))
	if wanted != nil { // otherwise the orphans to adopt are unknown
		setOrRemove(&status, o, nvidiav1beta1.ConditionOrphansAdopted, orphansCondition(o))
		set(&status, o, ownershipCondition(o, failure))
	}
	set(&status, o, providerCondition(o))
	meta.RemoveStatusCondition(&status.Conditions, formerProviderReady)
	if c := prerequisitesCondition(o); c != nil {
		set(&status, o, c)
	} else if p == nil {
		meta.RemoveStatusCondition(&status.Conditions, nvidiav1beta1.ConditionPrerequisitesMet)
	}
	setOrRemove(&status, o, nvidiav1beta1.ConditionQuotaReserved, quotaCondition(o))
	set(&status, o, placedCondition(o, p, failure))
	ready := readyCondition(o, components, p, failure, meta.FindStatusCondition(status.Conditions, nvidiav1beta1.ConditionPlaced))
	set(&status, o, ready)
	status.State = stateOf(ready, p, failure)
	followRollout(&status, o, wanted)
	setOrRemove(&status, o, nvidiav1beta1.ConditionMoved, movedCondition(o))
	sortConditions(status.Conditions)
	return status
}

// setOrRemove sets a condition, or removes the condition of this kind if c is nil.
func setOrRemove(status *nvidiav1beta1.DynamoGraphDeploymentStatus, o observed, kind string, c *condition) {
	if c == nil {
		meta.RemoveStatusCondition(&status.Conditions, kind)
		return
	}
	set(status, o, c)
}

func validCondition(p *problem) *condition {
	if p == nil || p.reason != nvidiav1beta1.ReasonInvalid {
		return nil
	}
	return no(nvidiav1beta1.ConditionValid, p.reason, p.message)
}

func memoryCondition(o observed) *condition {
	why := nvidiav1alpha1.PayloadProblem(o.dgd)
	if why == "" {
		return nil
	}
	return no(nvidiav1beta1.ConditionMemoryReadable, nvidiav1beta1.ReasonMemoryIgnored, why)
}

func limitCondition(o observed) *condition {
	if o.overLimit == "" {
		return nil
	}
	return no(nvidiav1beta1.ConditionWithinPodLimit, nvidiav1beta1.ReasonPodLimitExceeded, o.overLimit)
}

func stateOf(ready *condition, p *problem, failure error) nvidiav1beta1.State {
	switch {
	case p != nil || failure != nil && !waitsForLeftovers(failure):
		return nvidiav1beta1.StateFailed
	case ready.is:
		return nvidiav1beta1.StateSuccessful
	}
	return nvidiav1beta1.StatePending
}

// placementOf returns the domain of the graph's placed replicas, and the placement score. Until the scheduler has
// evaluated the graph, the former score stays.
func placementOf(o observed) *nvidiav1beta1.PlacementStatus {
	if o.topologyName() == "" {
		return nil
	}
	p := nvidiav1beta1.PlacementStatus{}
	switch {
	case o.judged && o.result.Score >= 0:
		p.Score = ptr.To(o.result.Score)
	case !o.judged && o.dgd.Status.Placement != nil:
		p.Score = o.dgd.Status.Placement.Score
	}
	switch {
	case o.judged && len(o.result.Places.Domain) > 0:
		p.Domain = o.result.Places.Domain.String()
	case o.judged:
		p.Domain = o.result.Domain.String()
	case o.dgd.Status.Placement != nil:
		p.Domain = o.dgd.Status.Placement.Domain
	}
	setPaired(&p, o)
	if p.Domain == "" && p.Score == nil && p.DecodePaired == nil && p.PrefillPaired == nil {
		return nil
	}
	p.State = placementState(o, p.Score)
	return &p
}

// setPaired sets the shares of prefill and decode replicas with a partner in their domain. Until the scheduler has evaluated the graph, the
// former shares stay.
func setPaired(p *nvidiav1beta1.PlacementStatus, o observed) {
	if before := o.dgd.Status.Placement; !o.judged && before != nil {
		p.DecodePaired, p.PrefillPaired = before.DecodePaired, before.PrefillPaired
	}
	t := o.result.Transfer
	if !o.judged || t == nil {
		return
	}
	if percent, known := t.Decode.Percent(); known {
		p.DecodePaired = &percent
	}
	if percent, known := t.Prefill.Percent(); known {
		p.PrefillPaired = &percent
	}
}

// placementState returns the state of the score: Partial while not all replicas are placed, Unknown without a score, and otherwise
// Reported.
func placementState(o observed, score *float64) string {
	switch {
	case o.judged && o.result.Placed < o.result.Wanted:
		return nvidiav1beta1.PlacementPartial
	case score == nil:
		return nvidiav1beta1.PlacementUnknown
	}
	return nvidiav1beta1.PlacementReported
}

func sortedNames(o observed) []string {
	names := make([]string, 0, len(o.dgd.Spec.Components))
	for _, c := range render.Components(o.dgd) {
		names = append(names, c.Name)
	}
	return names
}
