// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package external_test

import (
	"strings"
	"testing"

	"github.com/trellis-k8s/trellis/internal/provider/external"
	"github.com/trellis-k8s/trellis/internal/provider/grove"
	"github.com/trellis-k8s/trellis/test/testutil/providertest"
)

// TestGroveKeepsWhatIsSent: what Grove's webhook makes of a set still says all that was sent, so it is neither an error nor written again.
func TestGroveKeepsWhatIsSent(t *testing.T) {
	for name, components := range map[string]string{
		"single-node": `A: {componentType: worker, resources: {requests: {cpu: 1500m, memory: 1.5Gi}, limits: {gpu: "8"}}}`,
		"multinode":   `A: {componentType: worker, replicas: 2, multinode: {nodeCount: 2}, resources: {limits: {cpu: 2000m, gpu: "8"}}}`,
		"mixed":       "A: {componentType: worker, multinode: {nodeCount: 2}}\n    B: {componentType: frontend, replicas: 3}",
	} {
		g := providertest.Grove(t, providertest.Deployment(t, "metadata: {name: g, namespace: ns}\nspec:\n  services:\n    "+components))
		sent, err := external.Object(grove.Render(g, grove.Schema{Shape: grove.ShapePack}))
		if err != nil {
			t.Fatal(err)
		}
		kept := sent.DeepCopy()
		if err := providertest.GroveDefaults(kept); err != nil {
			t.Fatal(err)
		}
		if at := external.Missing(sent, kept); at != "" {
			t.Errorf("%s: %s is said to be dropped or changed", name, at)
		}
		if err := providertest.GroveRefuses(kept, kept); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestGroveRefusesAnotherNodeCount: the stand-in keeps what Grove keeps, for the rules of admission that rest on it.
func TestGroveRefusesAnotherNodeCount(t *testing.T) {
	set := func(components string) *grove.PodCliqueSet {
		g := providertest.Grove(t, providertest.Deployment(t, "metadata: {name: g, namespace: ns}\nspec:\n  services:\n    "+components))
		return grove.Render(g, grove.Schema{Shape: grove.ShapePack})
	}
	two, err := external.Object(set("A: {componentType: worker, multinode: {nodeCount: 2}}"))
	if err != nil {
		t.Fatal(err)
	}
	for components, want := range map[string]string{
		"A: {componentType: worker, multinode: {nodeCount: 4}}":              "minAvailable: Invalid value: 3: field is immutable",
		"A: {componentType: worker, replicas: 5, multinode: {nodeCount: 2}}": "",
	} {
		now, err := external.Object(set(components))
		if err != nil {
			t.Fatal(err)
		}
		if err := providertest.GroveRefuses(now, two); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", components, err, want)
		}
	}
}
