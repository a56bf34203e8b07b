// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package constraint

import (
	"slices"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
)

// Drift lists the topology annotations of a deployment that differ from the frozen constraint. now is the constraint that the deployment
// states today. Admission refuses changes of these annotations. If a change bypassed admission, the frozen constraint still applies
// (docs/placement.md#where-a-constraint-comes-from).
func Drift(dgd *nvidiav1beta1.DynamoGraphDeployment, now Statement, frozen map[string]*trellisv1alpha1.ResolvedTopology) []string {
	base, some := frozenBase(frozen, dgd)
	if !some {
		return nil
	}
	if base == nil || base.Automatic || now.ByFields { // the frozen constraint is not from annotations
		base = &trellisv1alpha1.ResolvedTopology{}
	}
	if !now.Annotated.Set() && base.ClusterTopology == "" {
		return nil
	}
	var drift []string
	for _, a := range []struct{ annotation, now, frozen string }{
		{AnnotationTopology, now.Annotated.Topology, base.ClusterTopology},
		{AnnotationRequired, now.Annotated.Required, Key(base, base.GraphPackDomain)},
		{AnnotationPreferred, now.Annotated.Preferred, Key(base, base.GraphPreferredPackDomain)},
	} {
		if a.now != a.frozen {
			drift = append(drift, a.annotation)
		}
	}
	return drift
}

// frozenBase returns the part that all frozen constraints of a deployment's components have in common; false if nothing is frozen.
func frozenBase(frozen map[string]*trellisv1alpha1.ResolvedTopology,
	dgd *nvidiav1beta1.DynamoGraphDeployment) (base *trellisv1alpha1.ResolvedTopology, some bool) {
	var names []string
	for i := range dgd.Spec.Components {
		names = append(names, dgd.Spec.Components[i].Name)
	}
	domain, required := "", false
	for _, name := range slices.Sorted(slices.Values(names)) {
		topology, ok := frozen[name]
		some = some || ok
		if topology != nil && topology.KVTransferDomain != "" {
			domain, required = topology.KVTransferDomain, topology.KVTransferRequired
		}
		if base == nil && topology != nil {
			base = topology.DeepCopy()
			base.PackDomain, base.PreferredPackDomain, base.SpreadDomain, base.PreferredSpreadDomain = "", "", "", ""
		}
	}
	if base != nil {
		base.KVTransferDomain, base.KVTransferRequired = domain, required
	}
	return base, some
}
