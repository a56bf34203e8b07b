// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package grove_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/provider/grove"
	"github.com/trellis-k8s/trellis/internal/topologybinding"
	"github.com/trellis-k8s/trellis/test/testutil/providertest"
)

// domainsOfAlpha8 is the fixed list that the oldest shape has.
var domainsOfAlpha8 = []string{"region", "zone", "datacenter", "block", "rack", "host", "numa"}

func TestProblemsAndLimitsOfAnOlderGrove(t *testing.T) {
	const constrained = `
metadata: {name: g, namespace: ns}
spec:
  topologyConstraint: {topologyProfile: grove-topology, packDomain: zone, preferredPackDomain: block}
  services:
    A: {componentType: worker, topologyConstraint: {preferredPackDomain: rack}}
    B: {componentType: worker}`
	const free = "metadata: {name: g, namespace: ns}\nspec: {services: {A: {componentType: worker}}}"
	unheard := []string{"the deployment, A: preferredPackDomain is not known to the installed Grove and has no effect"}
	cases := map[string]struct {
		text     string
		schema   grove.Schema
		topology string
		problems []string
		limits   []string
	}{
		"newest":               {text: constrained, schema: grove.Schema{Shape: grove.ShapePack}},
		"named":                {text: constrained, schema: grove.Schema{Shape: grove.ShapeNamed}, limits: unheard},
		"oldest":               {text: constrained, schema: grove.Schema{Shape: grove.ShapePackDomain, Domains: domainsOfAlpha8}, limits: unheard},
		"none":                 {text: constrained, schema: grove.Schema{Shape: grove.ShapeNone}, problems: []string{"the installed Grove has no topology constraints; upgrade it, or choose another provider"}, limits: unheard},
		"none, none asked for": {text: free, schema: grove.Schema{Shape: grove.ShapeNone}},
		"oldest, another topology": {text: constrained, schema: grove.Schema{Shape: grove.ShapePackDomain}, topology: "hall",
			problems: []string{`the installed Grove has one topology, "grove-topology", and the deployment uses ClusterTopology "hall"; rename that, or upgrade Grove`}, limits: unheard},
		"a domain it does not know": {text: constrained, schema: grove.Schema{Shape: grove.ShapePackDomain, Domains: []string{"rack"}},
			problems: []string{`the installed Grove knows the domains [rack] only, and "zone" is none of them; rename the level, or upgrade Grove`}, limits: unheard},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			g := providertest.Grove(t, providertest.Deployment(t, c.text))
			for _, sg := range g.Groups {
				if c.topology != "" {
					sg.Spec.Topology.ClusterTopology = c.topology
				}
			}
			if diff := cmp.Diff(c.problems, grove.Problems(g, c.schema)); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(c.limits, grove.Limits(g, c.schema)); diff != "" {
				t.Errorf("limits (-want +got):\n%s", diff)
			}
		})
	}
}

func TestProblemsOfPods(t *testing.T) {
	dgd := providertest.Deployment(t, `
metadata: {name: g, namespace: ns}
spec:
  services:
    A: {componentType: worker, extraPodSpec: {nodeName: n1}}
    B: {componentType: worker, extraPodSpec: {schedulerName: other}}
    C: {componentType: worker, extraPodSpec: {topologySpreadConstraints: [{maxSkew: 1, topologyKey: k, whenUnsatisfiable: DoNotSchedule}]}}`)
	want := []string{
		`component "A" has nodeName, which Grove refuses; remove it`,
		`component "C" has topologySpreadConstraints, which Grove refuses; remove them`,
		`the components name 2 different schedulers, and Grove takes one; set schedulerName to the same, or remove it`,
	}
	if diff := cmp.Diff(want, grove.Problems(providertest.Grove(t, dgd), grove.Schema{Shape: grove.ShapePack})); diff != "" {
		t.Error(diff)
	}
}

func TestNoIndexWithoutACommand(t *testing.T) {
	dgd := providertest.Deployment(t, "metadata: {name: g, namespace: ns}\nspec: {services: {A: {componentType: worker, multinode: {nodeCount: 2}}}}")
	want := []string{"A: the workers have no command, so that their index (TRELLIS_POD_INDEX) cannot be set"}
	if diff := cmp.Diff(want, grove.Limits(providertest.Grove(t, dgd), grove.Schema{Shape: grove.ShapePack})); diff != "" {
		t.Error(diff)
	}
}

func TestBinding(t *testing.T) {
	ct := providertest.Topology()
	ours, err := grove.RenderBinding(ct, "")
	if err != nil || len(ours.Spec.SchedulerTopologyBindings) != 0 {
		t.Fatalf("%v, bindings %v", err, ours)
	}
	changed := providertest.Topology()
	changed.Spec.Levels = changed.Spec.Levels[:2]
	if got := grove.BindingDrift(changed, ours); got != "" {
		t.Errorf("ours is rewritten, not reported: %q", got)
	}
	ours.OwnerReferences = nil
	if got := grove.BindingDrift(ct, ours); got != "" {
		t.Errorf("foreign and the same: %q", got)
	}
	if got := grove.BindingDrift(changed, ours); !strings.Contains(got, "left unchanged") || !strings.Contains(got, "rack=example.com/rack") {
		t.Errorf("foreign and different: %q", got)
	}
	ct.Spec.SchedulerTopologyReferences = []grovev1alpha1.SchedulerTopologyReference{{SchedulerName: "kai-scheduler", TopologyReference: "site"}}
	named, err := grove.RenderBinding(ct, "grove-topology")
	want := []topologybinding.SchedulerBinding{{SchedulerName: "kai-scheduler", TopologyReference: "site"}}
	if diff := cmp.Diff(want, named.Spec.SchedulerTopologyBindings); err != nil || diff != "" {
		t.Errorf("%v: the author's reference wins (-want +got):\n%s", err, diff)
	}
}

func TestBindingThatGroveRefuses(t *testing.T) {
	digit, long := providertest.Topology(), providertest.Topology()
	digit.Spec.Levels[1].Domain = "1st"
	long.Spec.Levels[1].Key = strings.Repeat("a", 50) + "/" + strings.Repeat("b", 20)
	for ct, word := range map[*grovev1alpha1.ClusterTopology]string{digit: `"1st"`, long: "has 71"} {
		if _, err := grove.RenderBinding(ct, ""); err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("got %v, want it to say %q", err, word)
		}
	}
}
