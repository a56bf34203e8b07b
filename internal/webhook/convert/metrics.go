// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

var failures = prometheus.NewCounter(prometheus.CounterOpts{
	Name: "trellis_conversion_failures_total",
	Help: "Requests to convert objects between API versions that were refused; each fails a read or a write.",
})

func init() { metrics.Registry.MustRegister(failures) }
