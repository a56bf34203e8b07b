// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/constraint"
	"github.com/trellis-k8s/trellis/internal/field"
)

// transferWithoutPlacement warns about a KV transfer policy that has no effect on placement. topology is the topology that the deployment's
// constraint names.
func transferWithoutPlacement(dgd Written, topology *grovev1alpha1.ClusterTopology) []field.Text {
	if dgd.Spec.Experimental == nil || dgd.Spec.Experimental.KVTransferPolicy == nil {
		return nil
	}
	policy := dgd.Spec.Experimental.KVTransferPolicy
	if constraint.TopologyName(dgd.DynamoGraphDeployment) == "" {
		return []field.Text{line(field.Say("%s decides where requests go, and not where replicas go: the deployment has no topologyConstraint",
			transferPath), nil)}
	}
	if topology == nil {
		return nil
	}
	level := transferLevel(policy, topology)
	if level < 0 {
		return []field.Text{line(field.Say("%s decides where requests go, and not where replicas go: it names no level of %s %q, by which the "+
			"deployment is placed", transferPath, topology.Source(), short(topology.Name)), nil)}
	}
	if pack, by := packedInto(dgd.DynamoGraphDeployment, topology); pack != "" && level <= levelIndex(topology, pack) {
		return []field.Text{line(field.Say("%s %q has no effect on where replicas go: all pods are in one %s by %s",
			transferPath.Child("domain"), short(policy.Domain), short(pack), by), nil)}
	}
	return withoutPartner(dgd, policy)
}

// packedInto returns the packDomain for the entire deployment, and the field or annotation that sets it.
func packedInto(dgd *nvidiav1beta1.DynamoGraphDeployment, topology *grovev1alpha1.ClusterTopology) (domain, by string) {
	stated := constraint.StatementOf(dgd)
	if key := stated.Annotated.Required; !stated.ByFields && key != "" {
		domain, _ = constraint.DomainOf(topology, key)
		return domain, "the annotation " + constraint.AnnotationRequired
	}
	if whole := dgd.Spec.TopologyConstraint; whole != nil {
		return whole.PackDomain, "packDomain"
	}
	return "", ""
}

// transferLevel returns the index of the level that a policy names; -1 if the topology has no such level.
func transferLevel(policy *nvidiav1beta1.KVTransferPolicy, topology *grovev1alpha1.ClusterTopology) int {
	if policy.LabelKey == "" {
		if policy.ClusterTopologyName != topology.Name {
			return -1
		}
		return levelIndex(topology, policy.Domain)
	}
	domain, _ := constraint.DomainOf(topology, policy.LabelKey)
	return levelIndex(topology, domain)
}

// withoutPartner warns about a required transfer policy in a deployment that wants prefill replicas but no decode replicas, or decode
// replicas but no prefill replicas.
func withoutPartner(dgd Written, policy *nvidiav1beta1.KVTransferPolicy) []field.Text {
	if policy.Enforcement != nvidiav1beta1.KVTransferRequired {
		return nil
	}
	wanted := map[nvidiav1beta1.ComponentType]int32{}
	for _, s := range componentsOf(dgd.DynamoGraphDeployment) {
		replicas := int32(1)
		if s.Replicas != nil {
			replicas = *s.Replicas
		}
		wanted[s.Type] += replicas
	}
	prefill, decode := wanted[nvidiav1beta1.ComponentTypePrefill], wanted[nvidiav1beta1.ComponentTypeDecode]
	missing := ""
	switch {
	case prefill == 0 && decode > 0:
		missing = string(nvidiav1beta1.ComponentTypePrefill)
	case decode == 0 && prefill > 0:
		missing = string(nvidiav1beta1.ComponentTypeDecode)
	default:
		return nil
	}
	return []field.Text{line(field.Say("%s is required, and no %s replica is wanted: nothing is placed by it, and requests find no partner "+
		"in their domain", transferPath.Child("enforcement"), missing), nil)}
}
