// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package external_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/provider/grove"
	"github.com/trellis-k8s/trellis/internal/provider/kai"
	"github.com/trellis-k8s/trellis/test/testutil/providertest"
)

// semantics are the rules of placement (docs/placement.md), each as a deployment and what is written for it under each provider.
var semantics = map[string]struct {
	// spec is the deployment's, in YAML.
	spec string
	// released limits what was released, as group/ordinal; nil: everything.
	released []string
	kai      string
	grove    string
	// limits are what Grove cannot do.
	limits []string
	lws    string
}{
	"4.1 all pods in one domain": {
		spec: `
topologyConstraint: {topologyProfile: grove-topology, packDomain: zone}
services:
  Front: {componentType: frontend, replicas: 2}
  Work: {componentType: worker}`,
		kai: `
g needs 2 in one zone
  g-front-all pods 1
  g-work-all pods 1`,
		grove: `
g in one zone
  front 2 (least 1)
  work 1 (least 1)`,
	},
	"4.2 each replica of a multinode service, all replicas of a single-node one": {
		spec: `
topologyConstraint: {topologyProfile: grove-topology}
services:
  Deep: {componentType: worker, replicas: 2, multinode: {nodeCount: 4}, topologyConstraint: {packDomain: rack}}
  Flat: {componentType: worker, replicas: 3, topologyConstraint: {packDomain: rack}}`,
		kai: `
g needs 1
  g-deep-all needs 1
    g-deep-0 pods 4 in one rack
    g-deep-1 pods 4 in one rack
  g-flat-all pods 1 in one rack`,
		grove: `
g
  deep 2 (least 1) in one rack
    deep-ldr 1 (least 1)
    deep-wkr 3 (least 3)
  flat 3 (least 1) in one rack`,
		lws: `
g-deep-r0 size 4 gate trellis.dev/placement
g-deep-r1 size 4 gate trellis.dev/placement`,
	},
	"4.2 a unit's domain inside the graph's; what is inherited is not repeated": {
		spec: `
topologyConstraint: {topologyProfile: grove-topology, packDomain: zone}
services:
  Deep: {componentType: worker, multinode: {nodeCount: 2}, topologyConstraint: {packDomain: rack}}
  Flat: {componentType: worker}`,
		kai: `
g needs 2 in one zone
  g-deep-all needs 1
    g-deep-0 pods 2 in one rack
  g-flat-all pods 1`,
		grove: `
g in one zone
  deep 1 (least 1) in one rack
    deep-ldr 1 (least 1)
    deep-wkr 1 (least 1)
  flat 1 (least 1)`,
		lws: `
g-deep-r0 size 2 gate trellis.dev/placement`,
	},
	"4.5 minAvailable replicas belong to the base gang": {
		spec: `
topologyConstraint: {topologyProfile: grove-topology, packDomain: zone}
services:
  Deep: {componentType: worker, replicas: 3, minAvailable: 2, multinode: {nodeCount: 2}}
  Flat: {componentType: worker, replicas: 3, minAvailable: 2}
  Idle: {componentType: worker, replicas: 0, minAvailable: 2}`,
		kai: `
g needs 2 in one zone
  g-deep-all needs 2
    g-deep-0 pods 2
    g-deep-1 pods 2
    g-deep-2 pods 2
  g-flat-all pods 2`,
		grove: `
g in one zone
  deep 3 (least 2)
    deep-ldr 1 (least 1)
    deep-wkr 1 (least 1)
  flat 3 (least 2)
  idle 2 (least 2)`,
		limits: []string{
			"Deep: Grove chooses the zone of each replica beyond minAvailable on its own, so it may differ from the deployment's",
			"Idle: Grove starts minAvailable replicas and then scales them down",
		},
		lws: `
g-deep-r0 size 2 gate trellis.dev/placement
g-deep-r1 size 2 gate trellis.dev/placement
g-deep-r2 size 2 gate trellis.dev/placement`,
	},
	"4.4 preferred inside required, at both places": {
		spec: `
topologyConstraint: {topologyProfile: grove-topology, packDomain: zone, preferredPackDomain: block}
services:
  Flat: {componentType: worker, topologyConstraint: {packDomain: block, preferredPackDomain: rack}}`,
		kai: `
g needs 1 in one zone, block first
  g-flat-all pods 1 in one block, rack first`,
		grove: `
g in one zone, block first
  flat 1 (least 1) in one block, rack first`,
	},
	"4.4 preferred as broad as required says nothing": {
		spec: `
topologyConstraint: {topologyProfile: grove-topology, packDomain: block, preferredPackDomain: zone}
services:
  A: {componentType: worker, topologyConstraint: {packDomain: rack, preferredPackDomain: rack}}
  B: {componentType: worker, topologyConstraint: {preferredPackDomain: block}}
  C: {componentType: worker, topologyConstraint: {preferredPackDomain: rack}}`,
		kai: `
g needs 3 in one block
  g-a-all pods 1 in one rack
  g-b-all pods 1
  g-c-all pods 1 rack first`,
		grove: `
g in one block
  a 1 (least 1) in one rack
  b 1 (least 1)
  c 1 (least 1) rack first`,
	},
	"4.4 preferred alone never blocks, and no gang waits for another": {
		spec: `
topologyConstraint: {topologyProfile: grove-topology, preferredPackDomain: rack}
services:
  A: {componentType: worker, topologyConstraint: {preferredPackDomain: block}}
  B: {componentType: worker, multinode: {nodeCount: 2}}`,
		kai: `
g needs 1 rack first
  g-a-all pods 1 block first
  g-b-all needs 1
    g-b-0 pods 2`,
		grove: `
g rack first
  b 1 (least 1)
    b-ldr 1 (least 1)
    b-wkr 1 (least 1)
  a 1 (least 1) rack first`,
		lws: `
g-b-r0 size 2 gate trellis.dev/placement`,
	},
	"4.5 one replica of every service goes first, whole": {
		spec: `
topologyConstraint: {topologyProfile: grove-topology, packDomain: zone}
services:
  Deep: {componentType: worker, replicas: 3, multinode: {nodeCount: 2}}
  Flat: {componentType: worker, replicas: 3}`,
		released: []string{"g-deep/0", "g-flat/0"},
		kai: `
g needs 2 in one zone
  g-deep-all needs 1
    g-deep-0 pods 2
  g-flat-all pods 1`,
		grove: `
g in one zone
  deep 3 (least 1)
    deep-ldr 1 (least 1)
    deep-wkr 1 (least 1)
  flat 3 (least 1)`,
		limits: []string{"Deep: Grove chooses the zone of each replica after the first on its own, so it may differ from the deployment's"},
		lws: `
g-deep-r0 size 2 gate trellis.dev/placement
g-deep-r1 size 2 gate trellis.dev/placement
g-deep-r2 size 2 gate trellis.dev/placement`,
	},
	"4.5 multinode without a constraint is a gang, single pods are free": {
		spec: `
services:
  Deep: {componentType: worker, replicas: 2, multinode: {nodeCount: 2}}
  Flat: {componentType: worker, replicas: 3}`,
		kai: `
g needs 1
  g-deep-all needs 1
    g-deep-0 pods 2
    g-deep-1 pods 2`,
		grove: `
g
  deep 2 (least 1)
    deep-ldr 1 (least 1)
    deep-wkr 1 (least 1)
  flat 3 (least 1)`,
		lws: `
g-deep-r0 size 2 gate trellis.dev/placement
g-deep-r1 size 2 gate trellis.dev/placement`,
	},
	"4.5 a service with no replicas is no part of the gang": {
		spec: `
topologyConstraint: {topologyProfile: grove-topology, packDomain: zone}
services:
  A: {componentType: worker}
  B: {componentType: worker, replicas: 0}`,
		kai: `
g needs 1 in one zone
  g-a-all pods 1`,
		grove: `
g in one zone
  a 1 (least 1)
  b 1 (least 1)`,
		limits: []string{"B: Grove starts one replica and then scales it to 0"},
	},
	"4.7 a replica to come is not listed, and keeps nothing waiting": {
		spec: `
topologyConstraint: {topologyProfile: grove-topology, packDomain: zone}
services:
  Deep: {componentType: worker, replicas: 3, multinode: {nodeCount: 2}, topologyConstraint: {packDomain: rack}}`,
		released: []string{"g-deep/0", "g-deep/2"},
		kai: `
g needs 1 in one zone
  g-deep-all needs 1
    g-deep-0 pods 2 in one rack
    g-deep-2 pods 2 in one rack`,
		grove: `
g in one zone
  deep 3 (least 1) in one rack
    deep-ldr 1 (least 1)
    deep-wkr 1 (least 1)`,
		limits: []string{"Deep: Grove chooses the zone of each replica after the first on its own, so it may differ from the deployment's"},
		lws: `
g-deep-r0 size 2 gate trellis.dev/placement
g-deep-r1 size 2 gate trellis.dev/placement
g-deep-r2 size 2 gate trellis.dev/placement`,
	},
	"4.7 nothing released, nothing said": {
		spec: `
topologyConstraint: {topologyProfile: grove-topology, packDomain: zone}
services:
  A: {componentType: worker}`,
		released: []string{},
		grove: `
g in one zone
  a 1 (least 1)`,
	},
}

func TestSemantics(t *testing.T) {
	for name, c := range semantics {
		t.Run(name, func(t *testing.T) {
			dgd := deployment(t, c.spec)
			k := providertest.KAI(t, dgd)
			if c.released != nil {
				k.Released = func(sg *trellisv1alpha1.ScalingGroup, ordinal int32) bool {
					return contains(c.released, sg.Name, ordinal)
				}
			}
			g := providertest.Grove(t, dgd)
			schema := grove.Schema{Shape: grove.ShapePack}
			for provider, sketch := range map[string][2]string{
				"KAI":   {c.kai, providertest.SketchKAI(kai.RenderPodGroup(k))},
				"Grove": {c.grove, providertest.SketchGrove(grove.Render(g, schema))},
				"LWS":   {c.lws, providertest.SketchLWS(providertest.Sets(k.Groups, nil))},
			} {
				if diff := cmp.Diff(strings.TrimSpace(sketch[0]), strings.TrimSpace(sketch[1])); diff != "" {
					t.Errorf("%s (-want +got):\n%s", provider, diff)
				}
			}
			if diff := cmp.Diff(c.limits, grove.Limits(g, schema)); diff != "" {
				t.Errorf("limits of Grove (-want +got):\n%s", diff)
			}
			if problems := grove.Problems(g, schema); len(problems) > 0 {
				t.Errorf("problems: %q", problems)
			}
		})
	}
}
