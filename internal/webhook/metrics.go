// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// inSync is 1 while the Secret contains the served certificate and the definitions trust it. A mismatch matters because other replicas of
// the operator, and this replica after a restart, serve the certificate in the Secret. Without webhooks and conversion, the metric has no
// series.
var inSync = prometheus.NewGaugeVec(prometheus.GaugeOpts{
	Name: "trellis_webhook_certificate_in_sync",
	Help: "1 while the webhooks' certificate is in its Secret and the definitions trust it, 0 while what is served cannot be kept.",
}, nil)

func init() { metrics.Registry.MustRegister(inSync) }

// Collectors returns the metrics of the webhooks, so that a test can compare them with the docs.
func Collectors() []prometheus.Collector { return []prometheus.Collector{inSync, turnedAway} }
