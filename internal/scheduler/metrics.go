// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// No metric carries the name of an object: their number must not grow with use.
var (
	planSeconds = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:    "trellis_plan_duration_seconds",
		Help:    "Time to plan everything that waits in one graph.",
		Buckets: prometheus.ExponentialBuckets(1e-5, 4, 10),
	})
	replicasPlaced = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "trellis_replicas_placed_total",
		Help: "Replicas (gangs) that were given a place.",
	})
	replicasRefused = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "trellis_replicas_refused_total",
		Help: "Times a replica was looked at and had to wait, by reason.",
	}, []string{"reason"})
	gangsTakenBack = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "trellis_gangs_taken_back_total",
		Help: "Gangs that were released, could not be bound and were taken back.",
	})
	preemptionsPlanned = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "trellis_gangs_preempting_total",
		Help: "Gangs that were given room which pods of lower priority had to make.",
	})
	replicasMoved = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "trellis_replicas_moved_total",
		Help: "Replicas that came back in another domain than they had been in.",
	})
	domainKept = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "trellis_domain_kept",
		Help: "1 while hosts of a domain are kept free for a gang that has waited for long, else 0.",
	})
	graphsWaiting = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "trellis_graphs_waiting",
		Help: "Graphs of which something waits for a place.",
	})
)

func init() {
	metrics.Registry.MustRegister(planSeconds, replicasPlaced, replicasRefused, gangsTakenBack, preemptionsPlanned, replicasMoved,
		domainKept, graphsWaiting)
}
