// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import "github.com/prometheus/client_golang/prometheus"

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

// readings collects gauges.
type readings struct{ metrics []prometheus.Metric }

func (r *readings) gauge(d *prometheus.Desc, value float64, labels ...string) {
	r.metrics = append(r.metrics, prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...))
}
