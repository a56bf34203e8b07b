// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package dynamographdeployment

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/constraint"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/limit"
	"github.com/trellis-k8s/trellis/internal/validation"
)

// condition is a condition to set. It is never Unknown, because programs that read Ready expect True or False. A False condition describes
// what is missing.
type condition struct {
	kind, reason, message string
	is                    bool
}

func yes(kind, reason, message string) *condition {
	return &condition{kind: kind, reason: reason, message: message, is: true}
}

func no(kind, reason, message string) *condition {
	return &condition{kind: kind, reason: reason, message: message}
}

func set(status *nvidiav1beta1.DynamoGraphDeploymentStatus, o observed, c *condition) {
	if c == nil {
		return
	}
	value := metav1.ConditionFalse
	if c.is {
		value = metav1.ConditionTrue
	}
	meta.SetStatusCondition(&status.Conditions, metav1.Condition{
		Type: c.kind, Status: value, Reason: c.reason, Message: limit.Text(c.message, limit.Condition), ObservedGeneration: o.dgd.Generation,
	})
}

// conditionOrder is the order of conditions in docs/conditions.md. Conditions that are prerequisites of other conditions come first, and
// the summary Ready comes last.
var conditionOrder = []string{
	nvidiav1beta1.ConditionValid,
	nvidiav1beta1.ConditionMemoryReadable,
	nvidiav1beta1.ConditionWithinPodLimit,
	nvidiav1beta1.ConditionOrphansAdopted,
	nvidiav1beta1.ConditionOwnershipConflict,
	nvidiav1beta1.ConditionPrerequisitesMet,
	nvidiav1beta1.ConditionTopologyConstraintInSync,
	nvidiav1beta1.ConditionTopologyLevelsAvailable,
	nvidiav1beta1.ConditionProviderReady,
	nvidiav1beta1.ConditionQuotaReserved,
	nvidiav1beta1.ConditionPlaced,
	nvidiav1beta1.ConditionPlacementsComplete,
	nvidiav1beta1.ConditionRolledOut,
	nvidiav1beta1.ConditionMoved,
	nvidiav1beta1.ConditionReady,
}

// sortConditions sorts the conditions by conditionOrder. Conditions of other programs come first and keep their order.
func sortConditions(conditions []metav1.Condition) {
	slices.SortStableFunc(conditions, func(a, b metav1.Condition) int {
		return slices.Index(conditionOrder, a.Type) - slices.Index(conditionOrder, b.Type)
	})
}

// topologyCondition reports whether the current ClusterTopology has every level that the deployment uses. If a provider makes the pods
// itself, the levels must also be available to the provider. Without a constraint, the condition is absent.
func topologyCondition(o observed) *condition {
	const kind = nvidiav1beta1.ConditionTopologyLevelsAvailable
	if !o.constrained() {
		return nil
	}
	if o.clusterTopology == nil || o.clusterTopology.DeletionTimestamp != nil {
		return no(kind, nvidiav1beta1.ReasonTopologyDefinitionNotFound, notFound(o.topologyName()))
	}
	switch lost := lostLevels(o); len(lost) {
	case 0:
		if c, lacking := levelsOfWorkload(o); lacking {
			return c
		}
		return yes(kind, nvidiav1beta1.ReasonAllTopologyLevelsAvailable, "All required topology levels are available in the cluster topology")
	case 1:
		return no(kind, nvidiav1beta1.ReasonTopologyLevelsUnavailable,
			fmt.Sprintf("Topology level '%s' is no longer available in the cluster topology%s", lost[0], otherKeys(o, lost)))
	default:
		return no(kind, nvidiav1beta1.ReasonTopologyLevelsUnavailable,
			fmt.Sprintf("Topology levels '%s' are no longer available in the cluster topology%s", strings.Join(lost, "', '"), otherKeys(o, lost)))
	}
}

// levelsOfWorkload reports levels that are missing for a provider that makes the pods itself. While the provider's objects cannot be read,
// c is nil, so that the existing condition stays, and lacking is true if that condition is False.
func levelsOfWorkload(o observed) (c *condition, lacking bool) {
	const kind = nvidiav1beta1.ConditionTopologyLevelsAvailable
	switch w := o.workload; {
	case w == nil:
		return nil, false
	case w.Blind:
		return nil, meta.IsStatusConditionFalse(o.dgd.Status.Conditions, kind)
	case w.Levels == nil || w.Levels.Available:
		return nil, false
	default:
		return no(kind, w.Levels.Reason, w.Levels.Message), true
	}
}

// driftCondition reports changed annotations that have no effect because the constraint is frozen; nil for none.
func driftCondition(o observed) *condition {
	drift := constraint.Drift(o.dgd, o.stated, o.frozen())
	if len(drift) == 0 {
		return nil
	}
	return no(nvidiav1beta1.ConditionTopologyConstraintInSync, nvidiav1beta1.ReasonFrozenConstraintHolds, fmt.Sprintf(
		"the constraint from creation stays in force, although these have changed since: %s; delete and recreate the DynamoGraphDeployment to "+
			"change it, or put the annotations back",
		strings.Join(drift, ", ")))
}

// lostLevels lists the levels of frozen constraints that the ClusterTopology no longer has, sorted by name.
func lostLevels(o observed) []string {
	var lost []string
	for _, sg := range o.groups {
		t := sg.Spec.Topology
		if t == nil {
			continue
		}
		for _, domain := range []string{t.GraphPackDomain, t.GraphPreferredPackDomain, t.PackDomain, t.PreferredPackDomain, t.SpreadDomain,
			t.PreferredSpreadDomain} {
			if !gang.Available(t, o.clusterTopology, domain) {
				lost = append(lost, domain)
			}
		}
	}
	if len(o.groups) == 0 { // nothing is frozen yet: the deployment's own fields count
		for _, domain := range validation.DomainsInUse(o.dgd) {
			if !slices.ContainsFunc(o.clusterTopology.Spec.Levels, func(l grovev1alpha1.TopologyLevel) bool { return l.Domain == domain }) {
				lost = append(lost, domain)
			}
		}
	}
	slices.Sort(lost)
	return slices.Compact(lost)
}

// otherKeys describes the lost levels whose node label key has changed; "" for none.
func otherKeys(o observed, lost []string) string {
	keys := map[string]string{}
	for _, sg := range o.groups {
		for _, domain := range lost {
			if was, now, differ := gang.OtherKey(sg.Spec.Topology, o.clusterTopology, domain); differ {
				keys[domain] = fmt.Sprintf("; '%s' had the key %s when the constraint was resolved, and has the key %s now", domain, was, now)
			}
		}
	}
	var out strings.Builder
	for _, domain := range slices.Sorted(maps.Keys(keys)) {
		out.WriteString(keys[domain])
	}
	return out.String()
}

// placedCondition reports whether every replica is placed, and otherwise why not. After an operator start, the former condition stays until
// the scheduler has evaluated the graph.
func placedCondition(o observed, p *problem, failure error) *condition {
	const kind = nvidiav1beta1.ConditionPlaced
	switch {
	case p != nil && len(o.groups) == 0:
		return no(kind, p.reason, p.message)
	case o.workload != nil && o.workload.Blind && o.provider.state.Ready && meta.FindStatusCondition(o.dgd.Status.Conditions, kind) != nil:
		return nil // temporary, for example when the operator has just started
	case o.workload != nil:
		return &condition{kind: kind, is: o.workload.Placed, reason: o.workload.Reason, message: o.workload.Message}
	case !o.judged:
		return nil
	}
	return schedulingCondition(o, failure)
}

// schedulingCondition returns the condition Placed according to the scheduling result.
func schedulingCondition(o observed, failure error) *condition {
	const kind = nvidiav1beta1.ConditionPlaced
	switch {
	case o.result.Creating && len(o.result.Waiting) == 0:
		return creatingGroups(failure)
	case len(o.result.Waiting) > 0:
		waiting := withRefusals(o)
		message := gang.WaitingMessage(o.result.Placed, o.result.Wanted, waiting) + gang.LeadingNote(waiting)
		if o.result.Asked != "" {
			message += "; " + o.result.Asked
		}
		if len(o.result.Outside) > 0 {
			message += "; " + gang.OutsideMessage(o.result.Outside)
		}
		return no(kind, gang.LeadingCode(waiting), aboutPlaces(o, message))
	case o.result.Placed < o.result.Wanted:
		return no(kind, gang.CodeCreating, fmt.Sprintf("%d of %d replicas are placed; the pods of the rest are being replaced", o.result.Placed,
			o.result.Wanted))
	case len(o.result.Outside) > 0:
		return no(kind, gang.OutsideCode(o.result.Outside), aboutPlaces(o, gang.OutsideMessage(o.result.Outside)))
	case o.result.Wanted == 0:
		return yes(kind, nvidiav1beta1.ReasonAllReplicasPlaced, "no replica is packed; the kube-scheduler places each pod on its own")
	case len(o.result.Domain) > 0:
		return yes(kind, nvidiav1beta1.ReasonAllReplicasPlaced, aboutPlaces(o, fmt.Sprintf("all %d packed replicas are placed in %s%s",
			o.result.Wanted, o.result.Domain, withoutPartner(o))))
	}
	return yes(kind, nvidiav1beta1.ReasonAllReplicasPlaced, aboutPlaces(o, fmt.Sprintf("all %d packed replicas are placed%s",
		o.result.Wanted, withoutPartner(o))))
}

// withoutPartner names the replicas that lack the partner required by kvTransferPolicy. The scale-in or loss of a replica can leave another
// replica without its partner.
func withoutPartner(o observed) string {
	t := o.result.Transfer
	if t == nil || !t.Required || t.AloneText() == "" {
		return ""
	}
	return "; " + t.AloneText() + ", which kvTransferPolicy requires"
}

// creatingGroups returns the condition Placed while scaling groups are missing. failure may contain the reason why the groups cannot be
// created.
func creatingGroups(failure error) *condition {
	const kind = nvidiav1beta1.ConditionPlaced
	groups := allAs[*groupFailure](failure)
	if len(groups) == 0 {
		return no(kind, gang.CodeCreating, "the scaling groups are being created")
	}
	failures := make([]error, 0, len(groups))
	for _, one := range groups {
		failures = append(failures, one)
	}
	if err := errors.Join(failures...); !waitsForLeftovers(err) {
		return no(kind, nvidiav1beta1.ReasonCreationRefused, limit.Text("scaling groups cannot be created: "+err.Error(), limit.Condition))
	}
	return no(kind, gang.CodeCreating, "the scaling groups are created when those of an earlier deployment of this name are gone")
}

// withRefusals returns the waiting replicas. If the API server refuses the pods of a replica, the refusal is the replica's reason.
func withRefusals(o observed) []gang.Waiting {
	out := slices.Clone(o.result.Waiting)
	for i := range out {
		sg := o.groups[out[i].Component]
		if sg == nil || out[i].Code != gang.CodeCreating {
			continue
		}
		if why := (component{group: sg}).refused(); why != "" {
			out[i].Code, out[i].Message = nvidiav1beta1.ReasonCreationRefused, "its pods cannot be created: "+why
		}
	}
	return out
}
