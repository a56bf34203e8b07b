// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package constraint

import (
	"testing"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
)

// TestTransfer: the policy of a new deployment places its prefill and decode replicas; one that exists keeps what it has.
func TestTransfer(t *testing.T) {
	ct := &grovev1alpha1.ClusterTopology{}
	ct.Name = "hall"
	for _, domain := range []string{"zone", "block", "rack"} {
		ct.Spec.Levels = append(ct.Spec.Levels, grovev1alpha1.TopologyLevel{Domain: domain, Key: "example.com/" + domain})
	}
	type policy = nvidiav1beta1.KVTransferPolicy
	for name, test := range map[string]struct {
		pack     string
		policy   *policy
		domain   string
		required bool
	}{
		"none":                      {},
		"required":                  {policy: &policy{ClusterTopologyName: "hall", Domain: "rack", Enforcement: "required"}, domain: "rack", required: true},
		"preferred":                 {policy: &policy{ClusterTopologyName: "hall", Domain: "rack", Enforcement: "preferred"}, domain: "rack"},
		"not stated":                {policy: &policy{ClusterTopologyName: "hall", Domain: "block"}, domain: "block"},
		"a label key":               {policy: &policy{LabelKey: "example.com/rack", Domain: "row"}, domain: "rack"},
		"a label key of no level":   {policy: &policy{LabelKey: "example.com/row", Domain: "rack"}},
		"another topology":          {policy: &policy{ClusterTopologyName: "other", Domain: "rack"}},
		"narrower than the graph's": {pack: "zone", policy: &policy{ClusterTopologyName: "hall", Domain: "rack"}, domain: "rack"},
		"as broad as the graph's":   {pack: "rack", policy: &policy{ClusterTopologyName: "hall", Domain: "rack"}},
		"broader than the graph's":  {pack: "rack", policy: &policy{ClusterTopologyName: "hall", Domain: "zone"}},
	} {
		t.Run(name, func(t *testing.T) {
			dgd := &nvidiav1beta1.DynamoGraphDeployment{}
			dgd.Spec.TopologyConstraint = &nvidiav1beta1.SpecTopologyConstraint{ClusterTopologyName: "hall", PackDomain: test.pack}
			dgd.Spec.Components = []nvidiav1beta1.ComponentSpec{{Name: "front", Type: "frontend"}, {Name: "pre", Type: "prefill"}, {Name: "de", Type: "decode"}}
			if test.policy != nil {
				dgd.Spec.Experimental = &nvidiav1beta1.GraphExperimental{KVTransferPolicy: test.policy}
			}
			resolved := Of(dgd, StatementOf(dgd), Sources{Topology: ct})
			if len(resolved.Problems) > 0 {
				t.Fatal(resolved.Problems)
			}
			for component, domain := range map[string]string{"front": "", "pre": test.domain, "de": test.domain} {
				got := resolved.Topologies[component]
				if got.KVTransferDomain != domain || got.KVTransferRequired != (domain != "" && test.required) || Transfers(got) != (domain != "") {
					t.Errorf("%s: %q, required %v; want %q", component, got.KVTransferDomain, got.KVTransferRequired, domain)
				}
			}
			// A provider that places the pods itself does not place them by the policy.
			if got := Of(dgd, StatementOf(dgd), Sources{Topology: ct, OnlyRoutes: true}).Topologies["de"]; Transfers(got) {
				t.Errorf("where Trellis does not place the pods: %q", got.KVTransferDomain)
			}
			// The groups of other components may be made before those that the policy places.
			half := Of(dgd, StatementOf(dgd), Sources{Topology: ct, Frozen: map[string]*trellisv1alpha1.ResolvedTopology{"front": resolved.Topologies["front"]}})
			for component, domain := range map[string]string{"front": "", "pre": test.domain, "de": test.domain} {
				if got := half.Topologies[component].KVTransferDomain; got != domain {
					t.Errorf("%s, made after the frontend: %q, want %q", component, got, domain)
				}
			}
			// Components that were frozen before there were policies keep to none, and what is added follows them.
			without := resolved.Topologies["pre"].DeepCopy()
			without.KVTransferDomain, without.KVTransferRequired = "", false
			for frozen, want := range map[*trellisv1alpha1.ResolvedTopology]string{without: "", resolved.Topologies["pre"]: test.domain} {
				again := Of(dgd, StatementOf(dgd), Sources{Topology: ct, Frozen: map[string]*trellisv1alpha1.ResolvedTopology{"pre": frozen}})
				if got := again.Topologies["de"].KVTransferDomain; got != want {
					t.Errorf("added to a component with %q: %q, want %q", frozen.KVTransferDomain, got, want)
				}
			}
		})
	}
}
