// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/trellis-k8s/trellis/internal/assignment"
	"github.com/trellis-k8s/trellis/internal/bools"
	"github.com/trellis-k8s/trellis/internal/limit"
	"github.com/trellis-k8s/trellis/internal/placement"
	"github.com/trellis-k8s/trellis/internal/topology"
)

const (
	// lastRefusal is the longest time for which plans exclude a place after a scheduler refused a gang there. The first exclusion lasts
	// Options.RequeueAfter. Each further refusal of the place doubles the exclusion, and extends it at least until the graph's next place
	// has been tried. After the exclusion, plans use the place only if no other place has capacity. When the time lastRefusal has passed
	// again, the place is forgotten.
	lastRefusal = time.Hour
	// maxRefusals is the maximum number of remembered places for one pod shape of a graph. The place with the fewest refusals is dropped
	// first.
	maxRefusals = 256
	// wholeFrom and wholeShare are the thresholds for the exclusion of a whole domain. A scheduler must have refused at least wholeFrom
	// hosts of the domain, or all hosts of a smaller domain. In addition, at least one in wholeShare of the domain's hosts must have been
	// refused, or the refusals must come from at least wholeFrom evictions.
	wholeFrom, wholeShare = 3, 4
	// maxNames is the maximum number of places that a message names.
	maxNames = 5
)

// refusedPlaces records the places in which a scheduler refused pods, and forgets a place when the place changes.
type refusedPlaces struct {
	places refusals
	// known is, by graph, the time of the newest refusal ever added to the field places. Recorded refusals that are not newer are ignored,
	// so that each refusal is added only once.
	known map[types.NamespacedName]time.Time
	// ended are the graphs for which an exclusion has ended since the last call of takeEnded.
	ended map[types.NamespacedName]bool

	clock        clock.Clock
	requeueAfter time.Duration
	cluster      *topology.Cluster
	pods         *releasedPods
	// requeues returns how often gangs of a graph were requeued in a row.
	requeues func(types.NamespacedName, time.Time) int
	wakeLoop func()
}

func newRefusedPlaces(o Options, c *topology.Cluster, pods *releasedPods, requeues func(types.NamespacedName, time.Time) int,
	wakeLoop func()) *refusedPlaces {
	return &refusedPlaces{
		places: refusals{}, known: map[types.NamespacedName]time.Time{}, ended: map[types.NamespacedName]bool{}, clock: o.Clock,
		requeueAfter: o.RequeueAfter, cluster: c, pods: pods, requeues: requeues, wakeLoop: wakeLoop,
	}
}

// forget drops the refusals of a graph.
func (p *refusedPlaces) forget(graph types.NamespacedName) {
	delete(p.places, graph)
	delete(p.known, graph)
}

// takeRecorded takes over the refusals that another operator has recorded.
func (p *refusedPlaces) takeRecorded(graph types.NamespacedName, record *assignment.Record) {
	if record == nil {
		return
	}
	now, known := p.clock.Now(), p.known[graph]
	for _, one := range record.Refused {
		one.Until = earlier(one.Until, now.Add(lastRefusal))
		if one.Last.After(known) && !forgotten(&one, now) {
			p.add(graph, one)
		}
	}
}

// add adds a refusal, and replaces an earlier refusal of the same place and shape.
func (p *refusedPlaces) add(graph types.NamespacedName, one assignment.Refused) {
	p.places.keep(graph, func(other *assignment.Refused) bool { return other.Shape != one.Shape || !other.Place.Equal(one.Place) })
	p.places[graph] = append(p.places[graph], one)
	if one.Last.After(p.known[graph]) {
		p.known[graph] = one.Last
	}
}

// refusals are the places in which a scheduler refused pods, by graph (docs/placement.md#places-that-a-scheduler-refused). For a while the
// planner does not place pods of the same shape there, and after that only if no other place has capacity. Refusals of a domain and
// refusals of its hosts are counted together. All places that are refused in the same eviction have the same Last time.
type refusals map[types.NamespacedName][]assignment.Refused

// forgotten reports whether plans treat a refused place like any other place again.
func forgotten(one *assignment.Refused, now time.Time) bool { return now.Sub(one.Until) >= lastRefusal }

// keep drops the places of a graph for which keeps returns false.
func (r refusals) keep(graph types.NamespacedName, keeps func(*assignment.Refused) bool) {
	r[graph] = slices.DeleteFunc(r[graph], func(one assignment.Refused) bool { return !keeps(&one) })
	if len(r[graph]) == 0 {
		delete(r, graph)
	}
}

// of returns the refused places of a graph for the planner, by shape, and drops forgotten places.
func (r refusals) of(graph types.NamespacedName, now time.Time) map[string][]placement.RefusedPlace {
	r.keep(graph, func(one *assignment.Refused) bool { return !forgotten(one, now) })
	out := map[string][]placement.RefusedPlace{}
	for _, one := range r[graph] {
		out[one.Shape] = append(out[one.Shape], placement.RefusedPlace{Refused: one.Place, Last: !now.Before(one.Until)})
	}
	return out
}

// nextEnd returns when the first excluded place of a graph may be used again; zero if no place is excluded.
func (r refusals) nextEnd(graph types.NamespacedName, now time.Time) (next time.Time) {
	for _, one := range r[graph] {
		if now.Before(one.Until) && (next.IsZero() || one.Until.Before(next)) {
			next = one.Until
		}
	}
	return next
}

// leftOut counts the places, of all graphs, that plans exclude now.
func (r refusals) leftOut(now time.Time) (n int) {
	for _, list := range r {
		for i := range list {
			n += bools.Int(now.Before(list[i].Until))
		}
	}
	return n
}

// said describes the excluded places in which pods of some shapes were refused; nil shapes means all shapes. It names the places, and then
// lists each place with the end of the exclusion and the scheduler's message: ", in z/r1: z/r1 (left out until 2026-01-02T12:00:30Z): no
// device". The names come first, because a condition quotes only the beginning. said returns "" if no place is excluded.
func (r refusals) said(graph types.NamespacedName, shapes map[string]bool, now time.Time) string {
	var names, lines []string
	for _, one := range r[graph] {
		if (shapes == nil || shapes[one.Shape]) && now.Before(one.Until) {
			names = append(names, one.Name())
			lines = append(lines, fmt.Sprintf("%s (left out until %s): %s", one.Name(), one.Until.UTC().Format(time.RFC3339), one.Message))
		}
	}
	if len(lines) == 0 {
		return ""
	}
	slices.Sort(names)
	slices.Sort(lines)
	names = slices.Compact(names)
	return ", in " + limit.Join(names, len(names), maxNames, ", ") + ": " + strings.Join(slices.Compact(lines), "; ")
}
