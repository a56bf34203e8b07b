// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// graphs gives the graphs series of their own, at most as many as MetricGraphs: first those that wait, the longest wait before the
// others, then by name.
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
	}
	r.gauge(graphOmitted, float64(len(names)-shown))
}
