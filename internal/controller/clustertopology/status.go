// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package clustertopology

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/constraint"
	"github.com/trellis-k8s/trellis/internal/hierarchy"
	"github.com/trellis-k8s/trellis/internal/limit"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// maxNames is the maximum number of nodes or deployments that a message lists.
const maxNames = 5

func statusOf(ct *grovev1alpha1.ClusterTopology, s scan, users []nvidiav1beta1.DynamoGraphDeployment,
	defaults []*grovev1alpha1.ClusterTopology,
) grovev1alpha1.ClusterTopologyStatus {
	status := *ct.Status.DeepCopy()
	status.ObservedGeneration = ct.Generation
	status.Nodes = int32(s.Nodes)
	status.UsedBy = int32(len(users))
	status.Levels = nil
	domains := make([]string, 0, len(s.Levels))
	for _, level := range s.Levels {
		domains = append(domains, level.Level.Domain)
		status.Levels = append(status.Levels, grovev1alpha1.TopologyLevelStatus{
			Domain: level.Domain, Domains: int32(level.Domains), Nodes: int32(level.Nodes), NodesMissing: int32(level.Missing),
		})
	}
	status.Summary = strings.Join(domains, " > ")
	for _, c := range []metav1.Condition{labelled(s.Scan), consistent(s), inUse(users)} {
		c.ObservedGeneration = ct.Generation
		meta.SetStatusCondition(&status.Conditions, c)
	}
	if c := isDefault(ct, defaults); c != nil {
		c.ObservedGeneration = ct.Generation
		meta.SetStatusCondition(&status.Conditions, *c)
	} else {
		meta.RemoveStatusCondition(&status.Conditions, grovev1alpha1.ConditionDefault)
	}
	return status
}

// isDefault returns, for a topology that is annotated as default, the condition that reports whether it is used as a default
// (docs/placement.md#where-a-constraint-comes-from); nil for other topologies.
func isDefault(ct *grovev1alpha1.ClusterTopology, defaults []*grovev1alpha1.ClusterTopology) *metav1.Condition {
	if !slices.ContainsFunc(defaults, func(d *grovev1alpha1.ClusterTopology) bool { return d.Name == ct.Name }) {
		return nil
	}
	c := &metav1.Condition{
		Type: grovev1alpha1.ConditionDefault, Status: metav1.ConditionTrue, Reason: grovev1alpha1.ReasonDefault,
		Message: "multinode components of new graphs without a constraint are packed by it, as closely as possible",
	}
	if elder := constraint.Elder(ct, defaults); elder != nil {
		c.Status, c.Reason = metav1.ConditionFalse, grovev1alpha1.ReasonSeveralDefaults
		c.Message = fmt.Sprintf("%s counts because it is older and has the same nodeSelector; leave the annotation on one, or let them select "+
			"different nodes", elder.Name)
		return c
	}
	var same, others []string
	for _, d := range defaults {
		switch elder := constraint.Elder(d, defaults); {
		case elder != nil && elder.Name == ct.Name:
			same = append(same, d.Name)
		case elder == nil && d.Name != ct.Name:
			others = append(others, d.Name)
		}
	}
	if len(others) > 0 {
		c.Message = fmt.Sprintf("multinode components of new graphs without a constraint are packed by it, as closely as possible, if their "+
			"pods can use its nodes; "+
			"other defaults, for other nodes: %s", some(others, len(others)))
	}
	if len(same) > 0 {
		c.Reason = grovev1alpha1.ReasonSeveralDefaults
		c.Message = fmt.Sprintf("it counts because it is the oldest, but these are annotated as the default too, with the same nodeSelector: "+
			"%s; "+
			"leave the annotation on one, or let them select different nodes", some(same, len(same)))
	}
	return c
}

func labelled(s topology.Scan) metav1.Condition {
	c := metav1.Condition{
		Type: grovev1alpha1.ConditionLevelsLabeled, Status: metav1.ConditionTrue, Reason: grovev1alpha1.ReasonAllNodesLabeled,
		Message: fmt.Sprintf("all %d nodes carry the label of every level", s.Nodes),
	}
	if s.Nodes == 0 {
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, grovev1alpha1.ReasonNoNodes,
			"no node matches spec.nodeSelector, or the cluster has no nodes"
		return c
	}
	var missing []string
	for _, level := range s.Levels {
		if level.MissingLabel > 0 {
			missing = append(missing, fmt.Sprintf("%d of %d nodes lack label %s of level '%s' (%s)",
				level.MissingLabel, s.Nodes, level.Key, level.Level.Domain, some(level.MissingNodes, level.MissingLabel)))
		}
	}
	if len(missing) > 0 {
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, grovev1alpha1.ReasonLabelsMissing, strings.Join(missing, "; ")
	}
	return c
}

// consistent returns the condition that reports whether each hostname belongs to one node, each path of label values refers to one domain,
// and each level is broader than the next level. If levels are in the wrong order, the condition reports nothing else, because the other
// checks are then meaningless. It reports duplicate hostnames before omitted levels.
func consistent(s scan) metav1.Condition {
	c := metav1.Condition{
		Type: grovev1alpha1.ConditionHierarchyConsistent, Status: metav1.ConditionTrue, Reason: grovev1alpha1.ReasonHierarchyValid,
		Message: "every hostname belongs to one node, and no path means several places",
	}
	if len(s.reversed) > 0 {
		texts := make([]string, 0, len(s.reversed))
		for _, r := range s.reversed {
			texts = append(texts, r.String())
		}
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, grovev1alpha1.ReasonLevelsReversed, strings.Join(texts, "; ")
		return c
	}
	if s.DuplicateCount == 0 && len(s.omitted) == 0 {
		return c
	}
	if s.DuplicateCount == 0 {
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, grovev1alpha1.ReasonLevelOmitted, omittedText(s.omitted)
		return c
	}
	var duplicates []string
	for _, d := range s.Duplicates {
		duplicates = append(duplicates, fmt.Sprintf("hostname %q on nodes %s", d.Value, some(d.Nodes, d.Count)))
	}
	c.Status, c.Reason, c.Message = metav1.ConditionFalse, grovev1alpha1.ReasonDuplicateHostnames, some(duplicates, s.DuplicateCount)
	if len(s.omitted) > 0 {
		c.Message += "; " + omittedText(s.omitted)
	}
	return c
}

func omittedText(omitted []hierarchy.Omitted) string {
	texts := make([]string, 0, len(omitted))
	for _, o := range omitted {
		texts = append(texts, o.String())
	}
	return strings.Join(texts, "; ")
}

func inUse(users []nvidiav1beta1.DynamoGraphDeployment) metav1.Condition {
	if len(users) == 0 {
		return metav1.Condition{
			Type: grovev1alpha1.ConditionInUse, Status: metav1.ConditionFalse, Reason: grovev1alpha1.ReasonUnreferenced,
			Message: "no DynamoGraphDeployment names this topology",
		}
	}
	names := make([]string, 0, len(users))
	for i := range users {
		names = append(names, users[i].Namespace+"/"+users[i].Name)
	}
	slices.SortFunc(names, cmp.Compare)
	return metav1.Condition{
		Type: grovev1alpha1.ConditionInUse, Status: metav1.ConditionTrue, Reason: grovev1alpha1.ReasonReferenced,
		Message: "used by " + some(names, len(names)),
	}
}

// some joins at most maxNames names. total is the number of all names; names may contain only the first names.
func some(names []string, total int) string {
	return limit.Join(names, total, maxNames, ", ")
}
