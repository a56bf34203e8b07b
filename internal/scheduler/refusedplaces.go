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
	// lastRefusal is the longest time that a place is left out for after a scheduler refused a gang there. The first one is
	// Options.RequeueAfter, and each further refusal at the place doubles it, and lasts at least until the next place has been tried. For as
	// long again after that time the place comes last, and then it is forgotten.
	lastRefusal = time.Hour
	// maxRefusals is how many places are remembered of one shape of pods. The one that has been refused least often is dropped first.
	maxRefusals = 256
	// wholeFrom and wholeShare decide when a whole domain is left out: a scheduler has refused so many of its hosts, or all of fewer, and
	// they are one of wholeShare of its hosts, or were refused in wholeFrom evictions.
	wholeFrom, wholeShare = 3, 4
	// maxNames bounds how many places a message names.
	maxNames = 5
)

// refusedPlaces learns the places that a scheduler refused pods in, and forgets them when they change.
type refusedPlaces struct {
	places refusals
	// known are the times of the last refusals of graphs that are or were in places: a recorded refusal is taken over once.
	known map[types.NamespacedName]time.Time
	// ended are the graphs for which some ended since the loop asked.
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

// add adds a refusal, in place of an earlier one of the same place.
func (p *refusedPlaces) add(graph types.NamespacedName, one assignment.Refused) {
	p.places.keep(graph, func(other *assignment.Refused) bool { return other.Shape != one.Shape || !other.Place.Equal(one.Place) })
	p.places[graph] = append(p.places[graph], one)
	if one.Last.After(p.known[graph]) {
		p.known[graph] = one.Last
	}
}

// refusals are the places that a scheduler refused pods in, by graph (docs/placement.md#places-that-a-scheduler-refused). The planner does
// not place pods of the shape there for a while, and then only for want of others. Refusals of a domain and of hosts in it count together.
// The time of the last refusal is equal for all places of one eviction.
type refusals map[types.NamespacedName][]assignment.Refused

// forgotten reports whether a place is like any other again.
func forgotten(one *assignment.Refused, now time.Time) bool { return now.Sub(one.Until) >= lastRefusal }

// keep drops the other places of a graph.
func (r refusals) keep(graph types.NamespacedName, keeps func(*assignment.Refused) bool) {
	r[graph] = slices.DeleteFunc(r[graph], func(one assignment.Refused) bool { return !keeps(&one) })
	if len(r[graph]) == 0 {
		delete(r, graph)
	}
}

// of returns the places that were refused to a graph, in the planner's terms, and forgets what is long ago.
func (r refusals) of(graph types.NamespacedName, now time.Time) map[string][]placement.RefusedPlace {
	r.keep(graph, func(one *assignment.Refused) bool { return !forgotten(one, now) })
	out := map[string][]placement.RefusedPlace{}
	for _, one := range r[graph] {
		out[one.Shape] = append(out[one.Shape], placement.RefusedPlace{Refused: one.Place, Last: !now.Before(one.Until)})
	}
	return out
}

// nextEnd is when the first place that is left out for a graph may be used again; zero when none is.
func (r refusals) nextEnd(graph types.NamespacedName, now time.Time) (next time.Time) {
	for _, one := range r[graph] {
		if now.Before(one.Until) && (next.IsZero() || one.Until.Before(next)) {
			next = one.Until
		}
	}
	return next
}

// leftOut counts the places that are left out now, of all graphs.
func (r refusals) leftOut(now time.Time) (n int) {
	for _, list := range r {
		for i := range list {
			n += bools.Int(now.Before(list[i].Until))
		}
	}
	return n
}

// said names the places that pods of some shapes, nil for all, were refused in, then lists until when each is left out and what a scheduler
// said: ", in z/r1: z/r1 (left out until 2026-01-02T12:00:30Z): no device". The names come first, because a condition quotes only the
// beginning. It is empty when no place is left out.
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
