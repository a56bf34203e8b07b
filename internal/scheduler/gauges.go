// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/gang"
)

// Metrics that are computed from the scheduler's state when they are gathered.
var (
	gangsWaiting = desc("trellis_gangs_waiting", "Gangs that wait to be placed, by reason.", "reason")
	placesLeft   = desc("trellis_places_left_out",
		"Domains and hosts, counted for each graph, that are left out for a while because a scheduler refused a gang there.")
	longestWait = desc("trellis_longest_wait_seconds", "How long the gang that waits longest has been waiting; 0 when none waits.")

	levelDomains    = desc("trellis_level_domains", "Domains of a topology level.", "level")
	levelUnlabelled = desc("trellis_level_nodes_without_label",
		"Nodes with the resource that are in no domain of the level, because they lack its label or a broader one.", "level", "resource")
	levelCapacity = desc("trellis_level_capacity", "Allocatable amount of the resource on usable nodes in the level's domains.", "level",
		"resource")
	levelFree        = desc("trellis_level_free", "Free amount of the resource on usable nodes in the level's domains.", "level", "resource")
	levelLargestGang = desc("trellis_level_largest_gang",
		"Amount of the resource of the largest gang that fits one domain of the level, of pods of the size.", "level", "resource", "pod_size")
	levelFragmented = desc("trellis_level_fragmentation_ratio",
		"How much smaller the largest gang is than if all free capacity lay together: 0 to 1.", "level", "resource", "pod_size")

	graphReplicas = desc("trellis_graph_replicas", "Replicas of a graph that Trellis places, by state.", "namespace", "graph", "state")
	graphWait     = desc("trellis_graph_longest_wait_seconds", "How long the gang of a graph that waits longest has been waiting.",
		"namespace", "graph")
	graphScore  = desc("trellis_graph_placement_score", "Placement score of the worst packed replica of a graph.", "namespace", "graph")
	graphPaired = desc("trellis_graph_kv_transfer_paired_ratio",
		"Share of a graph's bound prefill or decode replicas that have the other role in their domain of its kvTransferPolicy: 0 to 1.",
		"namespace", "graph", "role")
	graphOmitted = desc("trellis_graph_metrics_omitted", "Graphs without series of their own, because there are more than --graph-metrics.")
)

// gatherEvery is the minimum interval between two computations of these metrics; in between, a scrape gets the last values.
const gatherEvery = 10 * time.Second

// gatherer collects the metrics of the running loop. A standby operator exports none of them.
type gatherer struct{}

// Describe implements prometheus.Collector.
func (*gatherer) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		gangsWaiting, placesLeft, longestWait, levelDomains, levelUnlabelled, levelCapacity, levelFree, levelLargestGang, levelFragmented,
		graphReplicas, graphWait, graphScore, graphPaired, graphOmitted, graphsReporting, longestReport, rolloutsInPlace, longestStall,
	} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (*gatherer) Collect(out chan<- prometheus.Metric) {
	if s := running.Load(); s != nil {
		s.gathered.collect(s, out)
	}
}

func (g *gathered) collect(s *Scheduler, out chan<- prometheus.Metric) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if now := s.options.Clock.Now(); g.at.IsZero() || now.Sub(g.at) >= gatherEvery {
		g.at, g.metrics = now, gather(context.Background(), s)
	}
	for _, metric := range g.metrics {
		out <- metric
	}
}

func gather(ctx context.Context, s *Scheduler) []prometheus.Metric {
	r := &readings{}
	waiting := r.waits(s.ledger, s.options.Clock.Now())
	r.graphs(s, waiting)
	r.levels(ctx, s)
	r.conditions(ctx, s)
	return r.metrics
}

// waits adds the gauges of waiting gangs and of excluded places. It returns, by graph, the start of the longest wait of a gang.
func (r *readings) waits(l *ledger, now time.Time) map[types.NamespacedName]time.Time {
	counts, first := l.waitsByReason(now)
	oldest := now
	for _, since := range first {
		oldest = earlier(oldest, since)
	}
	for _, reason := range waitReasons {
		r.gauge(gangsWaiting, float64(counts[reason]), reason)
	}
	r.gauge(longestWait, now.Sub(oldest).Seconds())
	r.gauge(placesLeft, float64(l.placesLeftOut(now)))
	return first
}

// graphs adds the series of each graph, for at most MetricGraphs graphs: first the waiting graphs, from the longest wait to the shortest,
// and then the other graphs by name.
func (r *readings) graphs(s *Scheduler, waiting map[types.NamespacedName]time.Time) {
	if s.options.MetricGraphs <= 0 {
		return
	}
	results, now := s.results.all(), s.options.Clock.Now()
	since := func(name types.NamespacedName) time.Time {
		if at, waits := waiting[name]; waits {
			return at
		}
		return now
	}
	names := slices.SortedFunc(maps.Keys(results), func(a, b types.NamespacedName) int {
		return cmp.Or(since(a).Compare(since(b)), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	shown := min(len(names), s.options.MetricGraphs)
	for _, name := range names[:shown] {
		result := results[name]
		r.gauge(graphReplicas, float64(result.Wanted), name.Namespace, name.Name, "wanted")
		r.gauge(graphReplicas, float64(result.Placed), name.Namespace, name.Name, "placed")
		r.gauge(graphReplicas, float64(len(result.Waiting)), name.Namespace, name.Name, "waiting")
		r.gauge(graphWait, now.Sub(since(name)).Seconds(), name.Namespace, name.Name)
		if result.Score >= 0 {
			r.gauge(graphScore, result.Score, name.Namespace, name.Name)
		}
		r.paired(name, result.Transfer)
	}
	r.gauge(graphOmitted, float64(len(names)-shown))
}

// paired adds, by role, the share of a graph's bound replicas that have the other role in their domain. It adds no gauge for a role without
// bound replicas.
func (r *readings) paired(name types.NamespacedName, t *gang.Transfer) {
	if t == nil {
		return
	}
	for _, one := range []gang.PairedReplicas{t.Prefill, t.Decode} {
		if one.Bound > 0 {
			r.gauge(graphPaired, float64(one.Paired)/float64(one.Bound), name.Namespace, name.Name, one.Role.String())
		}
	}
}

// levels adds the gauges of capacity by level, over all ClusterTopologies.
func (r *readings) levels(ctx context.Context, s *Scheduler) {
	topologies := &grovev1alpha1.ClusterTopologyList{}
	if err := s.objects.reader.List(ctx, topologies, client.UnsafeDisableDeepCopy); err != nil {
		log.FromContext(ctx).Error(err, "listing topologies for metrics")
	}
	domains := map[string]int{}
	for _, resource := range slices.Compact(slices.Sorted(slices.Values(s.options.MetricResources))) { // each once: equal series are an error
		capacity := s.ledger.capacityOf(resource, topologies.Items)
		for _, level := range capacity.Levels {
			domains[level.Level] = level.Domains
			r.gauge(levelCapacity, float64(level.Capacity), level.Level, resource)
			r.gauge(levelFree, float64(level.Free), level.Level, resource)
			r.gauge(levelUnlabelled, float64(level.Unlabelled), level.Level, resource)
			for i, size := range capacity.Sizes {
				r.gauge(levelLargestGang, float64(level.Largest[i]), level.Level, resource, strconv.FormatInt(size, 10))
				r.gauge(levelFragmented, level.Fragmentation(i), level.Level, resource, strconv.FormatInt(size, 10))
			}
		}
	}
	for level, count := range domains {
		r.gauge(levelDomains, float64(count), level)
	}
}

// Collectors returns the metrics of the scheduler.
func Collectors() []prometheus.Collector {
	return []prometheus.Collector{
		planSeconds, timeToPlacement, releaseToBound, placementScore, replicasPlaced, replicasRefused, gangEvictions, gangRequeues,
		preemptionsPlanned, replicasMoved, repackMoves, repackGPUs, repackBatches, domainReserved, graphsWaiting, &gatherer{},
	}
}

// init registers all metrics. It also creates the series of all known reasons and results, and of pods without a priority class, with the
// value 0, because a rate needs a first value.
func init() {
	metrics.Registry.MustRegister(Collectors()...)
	for _, reason := range waitReasons {
		if reason != gang.CodeCreating && reason != gang.CodeWaitingForAdmission {
			replicasRefused.WithLabelValues(reason)
		}
	}
	for _, reason := range []string{ReasonUnschedulable, gang.CodeSchedulerRefuses, ReasonVictimsStayed, ReasonPlaceLost, ReasonElsewhere,
		gang.CodeReleaseRefused, ReasonStaleObjects, ReasonNotCreated} {
		gangEvictions.WithLabelValues(reason)
	}
	for _, reason := range []string{ReasonEvicted, ReasonPreempted, ReasonReplaced} {
		gangRequeues.WithLabelValues(reason)
	}
	for _, result := range []string{resultPlaced, resultEnded} {
		repackBatches.WithLabelValues(result)
	}
	timeToPlacement.WithLabelValues(classes.label(""))
}
