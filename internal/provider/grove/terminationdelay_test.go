// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package grove_test

import (
	"testing"
	"time"

	"github.com/trellis-k8s/trellis/internal/provider/grove"
	"github.com/trellis-k8s/trellis/test/testutil/providertest"
)

// TestKeepGang: Grove ends no gang of a deployment in which a component is, or once was, smaller than a gang.
func TestKeepGang(t *testing.T) {
	const usual, endless = 15 * time.Minute, 87600 * time.Hour
	tests := map[string]struct {
		components string
		have       time.Duration
		want       time.Duration
	}{
		"enough":                    {"A: {replicas: 1, multinode: {nodeCount: 2}}, B: {replicas: 2}", usual, usual},
		"new and enough":            {"A: {replicas: 1}", 0, usual},
		"no multinode replica":      {"A: {replicas: 0, multinode: {nodeCount: 2}}, B: {replicas: 2}", usual, endless},
		"no single-node replica":    {"A: {replicas: 1, multinode: {nodeCount: 2}}, B: {replicas: 0}", usual, endless},
		"new without replicas":      {"A: {replicas: 0}", 0, endless},
		"fewer than minAvailable":   {"A: {replicas: 1, minAvailable: 2}", usual, endless},
		"there are replicas again":  {"A: {replicas: 1}", endless, endless},
		"another delay in the past": {"A: {replicas: 1}", time.Hour, usual},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			g := providertest.Grove(t, providertest.Deployment(t, "metadata: {name: g, namespace: ns}\nspec: {services: {"+test.components+"}}"))
			want, have := grove.Render(g, grove.Schema{}), &grove.PodCliqueSet{}
			if test.have != 0 {
				have = grove.Render(g, grove.Schema{})
				have.Spec.Template.TerminationDelay.Duration = test.have
			}
			grove.KeepGang(want, have, g)
			if got := want.Spec.Template.TerminationDelay.Duration; got != test.want {
				t.Errorf("the delay is %s, want %s", got, test.want)
			}
		})
	}
}
