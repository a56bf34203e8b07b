// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/constraint"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
	"github.com/trellis-k8s/trellis/test/testutil/hub"
)

// annotated makes the annotations of "topology required preferred"; "-" leaves one out.
func annotated(text string) map[string]string {
	out := map[string]string{}
	words := strings.Fields(text)
	for i, key := range []string{constraint.AnnotationTopology, constraint.AnnotationRequired, constraint.AnnotationPreferred} {
		if i < len(words) && words[i] != "-" {
			out[key] = words[i]
		}
	}
	return out
}

// twoComponents has a multinode component Decode and a single-node one, Frontend.
func twoComponents(annotations string) *nvidiav1alpha1.DynamoGraphDeployment {
	dgd := graphOf("llm", map[string]int32{"Decode": 2, "Frontend": 1})
	dgd.Annotations = annotated(annotations)
	return dgd
}

func keyOfLevel(t *testing.T, ct *grovev1alpha1.ClusterTopology, domain string) string {
	t.Helper()
	for _, level := range ct.Spec.Levels {
		if level.Domain == domain {
			return level.Key
		}
	}
	t.Fatalf("no level %s", domain)
	return ""
}

func TestAnnotationsMeanTheSameAsFields(t *testing.T) {
	ct := hallOne(t)
	zone, rack := keyOfLevel(t, ct, "zone"), keyOfLevel(t, ct, "rack")
	for annotations, want := range map[string]string{
		"hall-one " + zone:              "hall-one|zone|||",
		"hall-one " + zone + " " + rack: "hall-one|zone|rack||",
		"hall-one - " + rack:            "hall-one||rack||",
		"hall-one":                      "none",
	} {
		g, err := Resolve(hub.Of(twoComponents(annotations)), Inputs{Topology: ct})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range g.Components {
			if got := domains(s.Topology); got != want {
				t.Errorf("%q: %s has %s, want %s", annotations, s.Name, got, want)
			}
		}
	}
	for annotations, want := range map[string]string{
		"hall-two " + zone:             `ClusterTopology not found: topology-aware scheduling requires a ClusterTopology resource "hall-two"`,
		"hall-one example.com/cabinet": `metadata.annotations[kai.scheduler/topology-required-placement]: example.com/cabinet is not the node label key of any level`,
	} {
		if _, err := Resolve(hub.Of(twoComponents(annotations)), Inputs{Topology: ct}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", annotations, err, want)
		}
	}
}

func TestDefaultTopology(t *testing.T) {
	ct := hallOne(t)
	narrowest := ct.Spec.Levels[len(ct.Spec.Levels)-1].Domain
	resolve := func(dgd *nvidiav1alpha1.DynamoGraphDeployment, frozen map[string]*trellisv1alpha1.ResolvedTopology) (string, string, *Graph) {
		g, err := Resolve(hub.Of(dgd), Inputs{Topology: ct, Defaults: []*grovev1alpha1.ClusterTopology{ct}, Frozen: frozen, Provider: specs.Gates.Name})
		if err != nil {
			t.Fatal(err)
		}
		return domains(g.Components[0].Topology), domains(g.Components[1].Topology), g
	}
	withMultinode := twoComponents("")
	decode, frontend, g := resolve(withMultinode, nil)
	if decode != "hall-one||||"+narrowest || frontend != "hall-one||||" {
		t.Errorf("Decode %s, Frontend %s: only the multinode service has a preference", decode, frontend)
	}
	for _, sg := range g.ScalingGroups() {
		if want := sg.Spec.Component == "Decode"; Gated(sg) != want {
			t.Errorf("%s gated: %v, want %v", sg.Spec.Component, !want, want)
		}
	}
	// Half written by an operator that died, the rest comes out the same, even when the default is another one by now.
	for _, s := range g.Components {
		other := hallOne(t)
		other.Name = "hall-two"
		again, err := Resolve(hub.Of(withMultinode), Inputs{Defaults: []*grovev1alpha1.ClusterTopology{other}, Provider: specs.Gates.Name, Frozen: map[string]*trellisv1alpha1.ResolvedTopology{s.Name: s.Topology}})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(g.Components, again.Components); diff != "" {
			t.Errorf("with %s frozen:\n%s", s.Name, diff)
		}
	}
	single := twoComponents("")
	single.Spec.Services["Decode"].Multinode = nil
	if decode, frontend, _ := resolve(single, nil); decode != "none" || frontend != "none" {
		t.Errorf("without a multinode service: %s, %s", decode, frontend)
	}
	if decode, _, _ := resolve(withMultinode, map[string]*trellisv1alpha1.ResolvedTopology{"Decode": nil, "Frontend": nil}); decode != "none" {
		t.Errorf("frozen before there was a default: %s", decode)
	}
	constrained := withMultinode.DeepCopy()
	constrained.Spec.TopologyConstraint = &nvidiav1alpha1.SpecTopologyConstraint{TopologyProfile: "hall-one", PackDomain: "zone"}
	if decode, _, _ := resolve(constrained, nil); decode != "hall-one|zone|||" {
		t.Errorf("with a constraint of its own: %s", decode)
	}
}

func TestDrift(t *testing.T) {
	ct := hallOne(t)
	zone, rack := keyOfLevel(t, ct, "zone"), keyOfLevel(t, ct, "rack")
	frozenOf := func(dgd *nvidiav1alpha1.DynamoGraphDeployment) map[string]*trellisv1alpha1.ResolvedTopology {
		g, err := Resolve(hub.Of(dgd), Inputs{Topology: ct, Defaults: []*grovev1alpha1.ClusterTopology{ct}})
		if err != nil {
			t.Fatal(err)
		}
		frozen := map[string]*trellisv1alpha1.ResolvedTopology{}
		for _, s := range g.Components {
			frozen[s.Name] = s.Topology
		}
		return frozen
	}
	byFields := twoComponents("")
	byFields.Spec.TopologyConstraint = &nvidiav1alpha1.SpecTopologyConstraint{TopologyProfile: "hall-one", PackDomain: "zone"}
	automatic := twoComponents("")
	unconstrained := twoComponents("")
	unconstrained.Spec.Services["Decode"].Multinode = nil
	const topology, required, preferred = constraint.AnnotationTopology, constraint.AnnotationRequired, constraint.AnnotationPreferred
	for name, tc := range map[string]struct {
		dgd  *nvidiav1alpha1.DynamoGraphDeployment
		now  string
		want []string
	}{
		"unchanged":                    {twoComponents("hall-one " + zone), "hall-one " + zone, nil},
		"another level":                {twoComponents("hall-one " + zone), "hall-one " + rack, []string{required}},
		"a preference added":           {twoComponents("hall-one " + zone), "hall-one " + zone + " " + rack, []string{preferred}},
		"taken away":                   {twoComponents("hall-one " + zone), "", []string{topology, required}},
		"added later":                  {unconstrained, "hall-one " + zone, []string{topology, required}},
		"beside fields":                {byFields, "hall-one " + rack, []string{topology, required}},
		"fields only":                  {byFields, "", nil},
		"the name alone beside fields": {byFields, "hall-one", nil},
		"default topology":             {automatic, "", nil},
		"over the default topology":    {automatic, "hall-one " + rack, []string{topology, required}},
	} {
		t.Run(name, func(t *testing.T) {
			frozen := frozenOf(tc.dgd)
			changed := tc.dgd.DeepCopy()
			changed.Annotations = annotated(tc.now)
			if diff := cmp.Diff(tc.want, constraint.Drift(hub.Of(changed), constraint.StatementOf(hub.Of(changed)), frozen)); diff != "" {
				t.Errorf("drift (-want +got):\n%s", diff)
			}
			if drift := constraint.Drift(hub.Of(changed), constraint.StatementOf(hub.Of(changed)), nil); drift != nil {
				t.Errorf("nothing is frozen yet, and %v drifts", drift)
			}
		})
	}
}
