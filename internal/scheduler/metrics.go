// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"cmp"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// No metric here has the name of an object as a label, except for a bounded number of priority classes, so that the number of series does
// not grow with the number of objects. The metrics in gauges.go are computed when they are gathered.
var (
	planSeconds = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:    "trellis_plan_duration_seconds",
		Help:    "Time to plan everything that waits in one graph.",
		Buckets: prometheus.ExponentialBuckets(1e-5, 4, 10),
	})
	timeToPlacement = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "trellis_time_to_placement_seconds",
		Help:    "Time from the creation of a gang's first pod until the gang was placed, by priority class.",
		Buckets: []float64{1, 2, 5, 10, 30, 60, 300, 900, 3600, 4 * 3600, 24 * 3600},
	}, []string{"priority_class"})
	releaseToBound = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:    "trellis_release_to_bound_seconds",
		Help:    "Time from the decision to release a pod until it was bound to a node.",
		Buckets: prometheus.ExponentialBuckets(0.05, 2, 13),
	})
	placementScore = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:    "trellis_placement_score",
		Help:    "Placement score of the plans that placed something, that of the worst replica: 1 when each sits in one narrowest domain.",
		Buckets: prometheus.LinearBuckets(0.1, 0.1, 10),
	})
	replicasPlaced = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "trellis_replicas_placed_total",
		Help: "Replicas (gangs) that were placed.",
	})
	replicasRefused = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "trellis_replicas_refused_total",
		Help: "Replicas (gangs) that began to wait, or to wait for another reason, by reason. Further evaluations are not counted.",
	}, []string{"reason"})
	gangEvictions = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "trellis_gang_evictions_total",
		Help: "Gangs that were released and evicted by Trellis, because they could not be bound, by reason.",
	}, []string{"reason"})
	gangRequeues = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "trellis_gang_requeues_total",
		Help: "Gangs that wait again after they had been placed, by reason.",
	}, []string{"reason"})
	preemptionsPlanned = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "trellis_gangs_preempting_total",
		Help: "Gangs that were placed where pods of lower priority have to free capacity.",
	})
	replicasMoved = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "trellis_replicas_moved_total",
		Help: "Replicas that were recreated in another domain than before.",
	})
	repackMoves = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "trellis_repack_moves_total",
		Help: "Running replicas that were requested to move so that a gang which waits gets a place.",
	})
	repackGPUs = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "trellis_repack_gpus_total",
		Help: "GPUs of these replicas, which restart.",
	})
	repackBatches = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "trellis_repack_batches_total",
		Help: "Gangs for which replicas moved, by result: placed, or ended without a place.",
	}, []string{"result"})
	domainReserved = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "trellis_domain_reserved",
		Help: "1 while hosts of a domain are reserved for a gang that has waited for a long time, else 0.",
	})
	graphsWaiting = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "trellis_graphs_waiting",
		Help: "Graphs of which something waits to be placed.",
	})
)

// Results of trellis_repack_batches_total.
const (
	resultPlaced = "placed"
	resultEnded  = "ended"
)

// Reasons of trellis_gang_evictions_total and trellis_gang_requeues_total.
const (
	// ReasonUnschedulable: the kube-scheduler found no node for a pod of the gang.
	ReasonUnschedulable = "Unschedulable"
	// ReasonVictimsStayed: pods of lower priority did not leave in time.
	ReasonVictimsStayed = "VictimsStayed"
	// ReasonPlaceLost: a planned host cannot take its pod any more, and the pod is not bound.
	ReasonPlaceLost = "PlaceLost"
	// ReasonElsewhere: the gang waited for preemption victims to leave, and there is free capacity for it elsewhere.
	ReasonElsewhere = "CapacityElsewhere"
	// ReasonStaleObjects: objects of an earlier gang prevented the provider from forming the gang.
	ReasonStaleObjects = "StaleObjects"
	// ReasonNotCreated: not all pods of the gang could be created in place.
	ReasonNotCreated = "NotCreated"
	// ReasonEvicted: Trellis evicted the gang; ReasonPreempted: pods of a higher priority took its capacity; ReasonReplaced: its pods were
	// replaced after a loss, an update or a restart.
	ReasonEvicted   = "Evicted"
	ReasonPreempted = "Preempted"
	ReasonReplaced  = "Replaced"
)

// maxClasses is the number of priority classes with a series of their own.
const maxClasses = 16

// classLabels limits the number of values of the label priority_class.
type classLabels struct {
	mu   sync.Mutex
	seen map[string]bool
}

var classes = classLabels{seen: map[string]bool{}}

// label returns the label value of a pod's priority class. This is the name of the class, "none" for a pod without a class, and "other" for
// classes after the first 16.
func (c *classLabels) label(name string) string {
	name = cmp.Or(name, "none")
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.seen[name] || len(c.seen) < maxClasses {
		c.seen[name] = true
		return name
	}
	return "other"
}

// gathered has the metrics that were computed last.
type gathered struct {
	mu      sync.Mutex
	at      time.Time
	metrics []prometheus.Metric
}
