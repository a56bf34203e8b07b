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
	// lastRefusal is the longest time for which plans exclude a place after a scheduler refused a gang there. The first time is
	// Options.RequeueAfter. Each further refusal of the place doubles the time, and extends it at least until the next place has been tried.
	// After that time the place comes last for another lastRefusal, and then it is forgotten.
	lastRefusal = time.Hour
	// maxRefusals is the maximum number of places that are remembered for one shape of pods of a graph. The place with the fewest refusals is
	// dropped first.
	maxRefusals = 256
	// wholeFrom and wholeShare decide when plans exclude a whole domain: a scheduler has refused at least wholeFrom of its hosts, or all hosts
	// of a smaller domain, and the refused hosts are at least one in wholeShare of its hosts, or were refused in at least wholeFrom evictions.
	wholeFrom, wholeShare = 3, 4
	// maxNames is the maximum number of places that a message names.
	maxNames = 5
)

// refusedPlaces learns the places in which a scheduler refused pods, and forgets a place when it changes.
type refusedPlaces struct {
	places refusals
	// known are the times of the last refusals, by graph, that are or were in places, so that a recorded refusal is taken over only once.
	known map[types.NamespacedName]time.Time
	// ended are the graphs for which an exclusion has ended since the loop last called takeEnded.
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
// planner does not place pods of the shape there, and after that only if no other place has capacity. Refusals of a domain and of hosts in
// it count together. All places of one eviction have the same time of the last refusal.
type refusals map[types.NamespacedName][]assignment.Refused

// forgotten reports whether plans treat a refused place like any other again.
func forgotten(one *assignment.Refused, now time.Time) bool { return now.Sub(one.Until) >= lastRefusal }

// keep drops all places of a graph but those for which keeps returns true.
func (r refusals) keep(graph types.NamespacedName, keeps func(*assignment.Refused) bool) {
	r[graph] = slices.DeleteFunc(r[graph], func(one assignment.Refused) bool { return !keeps(&one) })
	if len(r[graph]) == 0 {
		delete(r, graph)
	}
}

// of returns the refused places of a graph in the planner's terms, by shape, and drops forgotten places.
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

// said names the excluded places in which pods of some shapes, nil for all, were refused, and then lists until when each place is excluded
// and the message of the scheduler: ", in z/r1: z/r1 (left out until 2026-01-02T12:00:30Z): no device". The names come first, because a
// condition quotes only the beginning. It returns "" if no place is excluded.
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
