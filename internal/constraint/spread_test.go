// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package constraint

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
)

// TestSpread: a component has its own spread, or that of the deployment where that suits its packDomain.
func TestSpread(t *testing.T) {
	ct := &grovev1alpha1.ClusterTopology{}
	ct.Name = "hall"
	for _, domain := range []string{"zone", "block", "rack"} {
		ct.Spec.Levels = append(ct.Spec.Levels, grovev1alpha1.TopologyLevel{Domain: domain, Key: domain})
	}
	type own = nvidiav1beta1.TopologyConstraint
	type whole = nvidiav1beta1.SpecTopologyConstraint
	tests := map[string]struct {
		deployment whole
		component  *own
		single     bool
		want       Domains
	}{
		"none":                              {component: &own{PackDomain: "rack"}},
		"its own":                           {component: &own{PackDomain: "rack", SpreadDomain: "zone"}, want: Domains{Required: "zone"}},
		"at its pack level":                 {component: &own{PackDomain: "rack", SpreadDomain: "rack"}, want: Domains{Required: "rack"}},
		"the deployment's":                  {deployment: whole{SpreadDomain: "zone"}, component: &own{PackDomain: "rack"}, want: Domains{Required: "zone"}},
		"the deployment's, without its own": {deployment: whole{PreferredSpreadDomain: "zone"}, want: Domains{Preferred: "zone"}},
		"its own before the deployment's": {
			deployment: whole{SpreadDomain: "zone"}, component: &own{PackDomain: "rack", PreferredSpreadDomain: "block"}, want: Domains{Preferred: "block"},
		},
		"required and preferred":               {component: &own{SpreadDomain: "zone", PreferredSpreadDomain: "rack"}, want: Domains{"zone", "rack"}},
		"preferred as broad as required":       {component: &own{SpreadDomain: "zone", PreferredSpreadDomain: "zone"}, want: Domains{Required: "zone"}},
		"inside a replica":                     {deployment: whole{SpreadDomain: "rack"}, component: &own{PackDomain: "block"}},
		"the deployment in one of its domains": {deployment: whole{PackDomain: "zone"}, component: &own{SpreadDomain: "zone"}},
		"narrower than the deployment's":       {deployment: whole{PackDomain: "zone"}, component: &own{SpreadDomain: "block"}, want: Domains{Required: "block"}},
		"single pods inside their packDomain":  {single: true, component: &own{PackDomain: "block", SpreadDomain: "rack"}, want: Domains{Required: "rack"}},
		"single pods over their packDomain":    {single: true, component: &own{PackDomain: "rack", SpreadDomain: "rack"}},
		"single pods, the deployment's":        {single: true, deployment: whole{SpreadDomain: "zone"}, want: Domains{Required: "zone"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c := nvidiav1beta1.ComponentSpec{Name: "A", TopologyConstraint: test.component}
			if !test.single {
				c.Multinode = &nvidiav1beta1.MultinodeSpec{NodeCount: 2}
			}
			dgd := &nvidiav1beta1.DynamoGraphDeployment{}
			test.deployment.ClusterTopologyName = "hall"
			dgd.Spec.TopologyConstraint, dgd.Spec.Components = &test.deployment, []nvidiav1beta1.ComponentSpec{c}
			resolved := Of(dgd, StatementOf(dgd), Sources{Topology: ct})
			if len(resolved.Problems) > 0 {
				t.Fatal(resolved.Problems)
			}
			got := resolved.Topologies["A"]
			if diff := cmp.Diff(test.want, Domains{got.SpreadDomain, got.PreferredSpreadDomain}); diff != "" {
				t.Error(diff)
			}
			if Spread(got) == test.want.Empty() {
				t.Errorf("Spread is %v", Spread(got))
			}
			// Half written by an operator that died, another component has its own spread, not that of its sibling.
			dgd.Spec.Components = append(dgd.Spec.Components, nvidiav1beta1.ComponentSpec{Name: "B"})
			again := Of(dgd, StatementOf(dgd), Sources{Frozen: map[string]*trellisv1alpha1.ResolvedTopology{"A": got}})
			fresh := Of(dgd, StatementOf(dgd), Sources{Topology: ct})
			if diff := cmp.Diff(fresh.Topologies, again.Topologies); diff != "" {
				t.Error(diff)
			}
		})
	}
}
