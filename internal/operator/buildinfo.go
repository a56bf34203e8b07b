// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/trellis-k8s/trellis/internal/version"
)

func init() { metrics.Registry.MustRegister(buildInfo(version.Get())) }

// buildInfo returns a metric with the constant value 1. Its labels identify the build that a replica of the operator runs.
func buildInfo(build version.Info) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name:        "trellis_build_info",
		Help:        "1; the labels say which build of the operator this is.",
		ConstLabels: prometheus.Labels{"version": build.Version, "revision": build.Revision, "goversion": build.GoVersion},
	}, func() float64 { return 1 })
}
