// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package graph

import (
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/constraint"
)

// Drift lists the topology annotations of a deployment that say something else than what was taken over when it was first reconciled.
// Admission refuses such changes; where it was not there to, the frozen constraint holds (docs/placement.md#where-a-constraint-comes-from).
func Drift(dgd *nvidiav1beta1.DynamoGraphDeployment, frozen map[string]*trellisv1alpha1.ResolvedTopology) []string {
	base, some := frozenBase(dgd, frozen)
	if !some {
		return nil
	}
	if base == nil || base.Automatic || constrained(dgd) { // then nothing came from annotations
		base = &trellisv1alpha1.ResolvedTopology{}
	}
	now := constraint.FromAnnotations(dgd)
	if !now.Set() && base.Profile == "" {
		return nil
	}
	var drift []string
	for _, a := range []struct{ annotation, now, frozen string }{
		{constraint.AnnotationTopology, now.Topology, base.Profile},
		{constraint.AnnotationRequired, now.Required, keyOf(base, base.GraphPackDomain)},
		{constraint.AnnotationPreferred, now.Preferred, keyOf(base, base.GraphPreferredPackDomain)},
	} {
		if a.now != a.frozen {
			drift = append(drift, a.annotation)
		}
	}
	return drift
}

func keyOf(t *trellisv1alpha1.ResolvedTopology, domain string) string {
	for _, level := range t.Levels {
		if level.Domain == domain {
			return level.Key
		}
	}
	return ""
}
