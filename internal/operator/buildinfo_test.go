// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"maps"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/trellis-k8s/trellis/internal/version"
)

func TestBuildInfo(t *testing.T) {
	registry, labels := prometheus.NewRegistry(), map[string]string{}
	registry.MustRegister(buildInfo(version.Info{Version: "v0.1.0", Revision: "abc", GoVersion: "go1.26.8"}))
	families, err := registry.Gather()
	if err != nil || len(families) != 1 || len(families[0].Metric) != 1 {
		t.Fatalf("got %v (%v), want one metric", families, err)
	}
	metric := families[0].Metric[0]
	for _, label := range metric.GetLabel() {
		labels[label.GetName()] = label.GetValue()
	}
	if want := map[string]string{"version": "v0.1.0", "revision": "abc", "goversion": "go1.26.8"}; !maps.Equal(labels, want) {
		t.Errorf("labels %v, want %v", labels, want)
	}
	if name := families[0].GetName(); name != "trellis_build_info" || metric.GetGauge().GetValue() != 1 {
		t.Errorf("%s is %v, want trellis_build_info to be 1", name, metric)
	}
}
