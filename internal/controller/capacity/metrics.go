// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package capacity

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

var requestsFailed = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "trellis_capacity_requests_failed_total",
	Help: "Gangs for which no capacity came, or none was requested, by the reason of the event.",
}, []string{"reason"})

// init registers the metric with all its series, because the first increase of a series without an initial 0 is invisible to a rate.
func init() {
	metrics.Registry.MustRegister(Collectors()...)
	for _, reason := range []string{EventNotRequested, EventGivenUp, EventRefused} {
		requestsFailed.WithLabelValues(reason)
	}
}

// Collectors returns the metrics of this package. On a standby replica of the operator, their values do not change.
func Collectors() []prometheus.Collector { return []prometheus.Collector{requestsFailed} }
