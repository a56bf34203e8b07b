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
	known  knownRefusals
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
		places: refusals{}, known: knownRefusals{}, ended: map[types.NamespacedName]bool{}, clock: o.Clock, requeueAfter: o.RequeueAfter,
		cluster: c, pods: pods, requeues: requeues, wakeLoop: wakeLoop,
	}
}

// forget drops what is known of a graph.
func (p *refusedPlaces) forget(graph types.NamespacedName) {
	delete(p.places, graph)
	delete(p.known, graph)
}

// refusals are the places that a scheduler refused pods in, by graph and by the digest of the pods' shape before their release
// (docs/placement.md#places-that-a-scheduler-refused). The planner does not place such pods there for a while, and then only for want of
// others.
type refusals map[types.NamespacedName]map[string][]refusal

// refusal is one place that a scheduler refused pods in.
type refusal struct {
	place topology.Refused
	// name is what messages call the place, said what the scheduler said last.
	name, said string
	// path is the place's domain: of a host the narrowest one that it is in.
	path topology.Path
	// times is how often it was refused in succession, until when the place is left out. Refusals of a domain and of hosts in it count
	// together. at is when it was refused last: equal for all places of one eviction.
	times     int
	until, at time.Time
}

// within reports whether a refusal of one of two places is one of the other: they are the same, or one holds the other.
func (r *refusal) within(other *refusal) bool {
	switch {
	case r.place.Equal(other.place):
		return true
	case r.place.Host != "" && other.place.Host != "" || len(r.path) == 0 || len(other.path) == 0:
		return false
	case other.place.Host != "":
		return r.path.Contains(other.path)
	case r.place.Host != "":
		return other.path.Contains(r.path)
	}
	return r.path.Contains(other.path) || other.path.Contains(r.path)
}

// forgotten reports whether the place is like any other again.
func (r *refusal) forgotten(now time.Time) bool { return now.Sub(r.until) >= lastRefusal }

// dropWithin forgets the hosts of a domain, and returns them: it is refused as a domain.
func (r refusals) dropWithin(graph types.NamespacedName, shape string, path topology.Path) (dropped []refusal) {
	r[graph][shape] = slices.DeleteFunc(r[graph][shape], func(one refusal) bool {
		within := one.place.Host != "" && one.path.Equal(path)
		if within {
			dropped = append(dropped, one)
		}
		return within
	})
	return dropped
}

// of returns the places that were refused to a graph, in the planner's terms, and forgets what is long ago.
func (r refusals) of(graph types.NamespacedName, now time.Time) map[string][]placement.RefusedPlace {
	var out map[string][]placement.RefusedPlace
	for shape, list := range r[graph] {
		list = slices.DeleteFunc(list, func(one refusal) bool { return one.forgotten(now) })
		r.set(graph, shape, list)
		for _, one := range list {
			if out == nil {
				out = map[string][]placement.RefusedPlace{}
			}
			out[shape] = append(out[shape], placement.RefusedPlace{Refused: one.place, Last: !now.Before(one.until)})
		}
	}
	return out
}

// set keeps the places of a shape, and nothing when there are none.
func (r refusals) set(graph types.NamespacedName, shape string, list []refusal) {
	if len(list) > 0 {
		r[graph][shape] = list
		return
	}
	if delete(r[graph], shape); len(r[graph]) == 0 {
		delete(r, graph)
	}
}

// nextEnd is when the first place that is left out for a graph may be used again; zero when none is.
func (r refusals) nextEnd(graph types.NamespacedName, now time.Time) (next time.Time) {
	for _, list := range r[graph] {
		for i := range list {
			if until := list[i].until; now.Before(until) && (next.IsZero() || until.Before(next)) {
				next = until
			}
		}
	}
	return next
}

// leftOut counts the places that are left out now, of all graphs.
func (r refusals) leftOut(now time.Time) (n int) {
	for _, shapes := range r {
		for _, list := range shapes {
			for i := range list {
				if now.Before(list[i].until) {
					n++
				}
			}
		}
	}
	return n
}

// said names the places that pods of some shapes, nil for all, were refused in, then lists until when each is left out and what a scheduler
// said: ", in z/r1: z/r1 (left out until 2026-01-02T12:00:30Z): no device". The names come first, because a condition quotes only the
// beginning. It is empty when no place is left out.
func (r refusals) said(graph types.NamespacedName, shapes map[string]bool, now time.Time) string {
	var names, lines []string
	for shape, list := range r[graph] {
		for i := range list {
			if one := &list[i]; (shapes == nil || shapes[shape]) && now.Before(one.until) {
				names = append(names, one.name)
				lines = append(lines, fmt.Sprintf("%s (left out until %s): %s", one.name, one.until.UTC().Format(time.RFC3339), one.said))
			}
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

// knownRefusals are the times of the last refusals that are or were in [refusals], by graph and by shape and place. A recorded refusal is
// taken over once.
type knownRefusals map[types.NamespacedName]map[string]time.Time

// maxKnownRefusals is the number of refusals kept in memory for each graph. Beyond it, refusals too old to be in any record are dropped.
const maxKnownRefusals = 1024

func (k knownRefusals) add(graph types.NamespacedName, shape string, one *refusal) {
	if k[graph] == nil {
		k[graph] = map[string]time.Time{}
	}
	if len(k[graph]) >= maxKnownRefusals {
		for key, at := range k[graph] {
			if one.at.Sub(at) > 2*lastRefusal {
				delete(k[graph], key)
			}
		}
	}
	k[graph][shape+" "+one.name] = one.at.Truncate(time.Second)
}
