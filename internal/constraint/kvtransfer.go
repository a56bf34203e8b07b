// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package constraint

import (
	"slices"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
)

// transfer adds the kvTransferPolicy of a new deployment to its constraint (docs/placement.md#prefill-alongside-decode). It adds nothing if
// the policy names no level of the topology, or if the level is not narrower than the graph domain. The policy then affects only routing.
func transfer(base *trellisv1alpha1.ResolvedTopology, dgd *nvidiav1beta1.DynamoGraphDeployment) {
	if dgd.Spec.Experimental == nil || dgd.Spec.Experimental.KVTransferPolicy == nil {
		return
	}
	policy := dgd.Spec.Experimental.KVTransferPolicy
	domain := TransferDomain(base, policy)
	if domain == "" || base.GraphPackDomain != "" && Level(base, domain) <= Level(base, base.GraphPackDomain) {
		return
	}
	base.KVTransferDomain, base.KVTransferRequired = domain, policy.Enforcement == nvidiav1beta1.KVTransferRequired
}

// transferFrozen reports whether a component that transfers KV caches has a frozen constraint. The other components then use the policy of
// this constraint. If no such component has a frozen constraint, the policy is new to the deployment, even if other components already have
// scaling groups.
func transferFrozen(frozen map[string]*trellisv1alpha1.ResolvedTopology, dgd *nvidiav1beta1.DynamoGraphDeployment) bool {
	return slices.ContainsFunc(dgd.Spec.Components, func(c nvidiav1beta1.ComponentSpec) bool {
		_, is := frozen[c.Name]
		return is && transfers(&c)
	})
}

// TransferDomain returns the level of a topology that a policy names; "" when the policy names no level of this topology.
func TransferDomain(base *trellisv1alpha1.ResolvedTopology, policy *nvidiav1beta1.KVTransferPolicy) string {
	at := slices.IndexFunc(base.Levels, func(l trellisv1alpha1.ResolvedLevel) bool {
		if policy.LabelKey != "" {
			return l.Key == policy.LabelKey
		}
		return policy.ClusterTopologyName == base.ClusterTopology && l.Domain == policy.Domain
	})
	if at < 0 {
		return ""
	}
	return base.Levels[at].Domain
}

// transfers reports whether the replicas of a component transfer KV caches: its type is prefill or decode.
func transfers(c *nvidiav1beta1.ComponentSpec) bool {
	return c.Type == nvidiav1beta1.ComponentTypePrefill || c.Type == nvidiav1beta1.ComponentTypeDecode
}

// Transfers reports whether a kvTransferPolicy influences the placement of a component's replicas.
func Transfers(t *trellisv1alpha1.ResolvedTopology) bool { return t != nil && t.KVTransferDomain != "" }
