// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/limit"
	"github.com/trellis-k8s/trellis/internal/placement"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/topology"
)

const (
	// lastRefusal is the longest time that a place is left out for after a scheduler refused a gang there. The first one is
	// Options.RequeueAfter, and each further refusal at the place doubles it, and lasts at least until the next place has been tried. For as
	// long again after that time the place comes last, and then it is forgotten.
	lastRefusal = time.Hour
	// maxRefusals is how many places are remembered of one shape of pods. The one that has been refused least often is dropped first.
	maxRefusals = 256
	// wholeFrom and wholeShare are how many hosts of a domain, and which part of them, a scheduler refuses before the whole domain is left
	// out.
	wholeFrom, wholeShare = 3, 4
	// maxRefusalText bounds what is kept of a scheduler's message, in bytes.
	maxRefusalText = 256
)

// refusals are the places that a scheduler refused pods in, by graph and by the key of the pods' shape before their release
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
	// together: one gang is pinned to a domain by its labels at one time, and to its hosts at another.
	times int
	until time.Time
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

// refused notes one refusal, and leaves the place out for twice as long as the last time.
func (l *ledger) refused(graph types.NamespacedName, shape string, now refusal) {
	if l.refusals[graph] == nil {
		l.refusals[graph] = map[string][]refusal{}
	}
	list, at := l.refusals[graph][shape], l.clock.Now()
	for i := range list {
		if list[i].within(&now) && !list[i].forgotten(at) {
			now.times = max(now.times, list[i].times)
		}
	}
	list = slices.DeleteFunc(list, func(one refusal) bool { return one.place.Equal(now.place) })
	out := doubled(l.options.RequeueAfter, lastRefusal, now.times)
	if now.times > 0 {
		out = max(out, l.untilTheNext(graph, at))
	}
	now.until = at.Add(out)
	now.times++
	if len(list) >= maxRefusals {
		least := slices.MinFunc(list, func(a, b refusal) int { return a.times - b.times })
		list = slices.DeleteFunc(list, func(one refusal) bool { return one.place.Equal(least.place) })
	}
	l.refusals[graph][shape] = append(list, now)
}

// untilTheNext is about how long it takes until the next place of a graph is refused, too, and its pause after that is over: a place that
// is used again before would have the graph go back and forth, and never say that it is refused everywhere.
func (l *ledger) untilTheNext(graph types.NamespacedName, now time.Time) time.Duration {
	times := l.backoffs.times(graph, now)
	return 2*l.options.RequeueAfter + doubled(firstBackoff, lastBackoff, times) + doubled(firstBackoff, lastBackoff, times+1)
}

// dropWithin forgets the hosts of a domain: it is refused as a domain.
func (r refusals) dropWithin(graph types.NamespacedName, shape string, path topology.Path) {
	r[graph][shape] = slices.DeleteFunc(r[graph][shape], func(one refusal) bool { return one.place.Host != "" && one.path.Equal(path) })
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

// said lists, place by place, what a scheduler said to pods of some shapes, nil for all: "zone-a/rack-1 (left out until 12:00:30Z): no
// device".
func (r refusals) said(graph types.NamespacedName, shapes map[string]bool, now time.Time) string {
	var lines []string
	for shape, list := range r[graph] {
		for i := range list {
			if one := &list[i]; (shapes == nil || shapes[shape]) && now.Before(one.until) {
				lines = append(lines, fmt.Sprintf("%s (left out until %s): %s", one.name, one.until.UTC().Format(time.RFC3339), one.said))
			}
		}
	}
	slices.Sort(lines)
	return strings.Join(slices.Compact(lines), "; ")
}

// nodeDiffers forgets the refusals that a change of a node may be the end of, and has their graphs evaluated again: for a host any change,
// and for a domain a node that came to it or takes pods that it did not take before. Among many nodes one changes all the time. old is nil
// for a new node, and now for one that is gone.
func (l *ledger) nodeDiffers(old, now *corev1.Node) {
	l.endRefusals(func(_ types.NamespacedName, one *refusal) bool {
		was, is := coversNode(one.place, old), coversNode(one.place, now)
		if one.place.Host != "" {
			return was || is
		}
		return is && (!was || takesMore(old, now))
	}, true)
}

func coversNode(place topology.Refused, node *corev1.Node) bool {
	return node != nil && place.Covers(node.Name, node.Labels)
}

// takesMore reports whether a node may take pods that it did not take before.
func takesMore(old, now *corev1.Node) bool {
	if old.Spec.Unschedulable && !now.Spec.Unschedulable || !topology.Ready(old) && topology.Ready(now) {
		return true
	}
	for i := range old.Spec.Taints {
		if !slices.ContainsFunc(now.Spec.Taints, func(t corev1.Taint) bool {
			return t.MatchTaint(&old.Spec.Taints[i]) && t.Value == old.Spec.Taints[i].Value
		}) {
			return true
		}
	}
	for name, amount := range now.Status.Allocatable {
		if had := old.Status.Allocatable[name]; amount.Cmp(had) > 0 {
			return true
		}
	}
	return false
}

// podLeft ends the time that a host is left out for other graphs than the pod's own. It comes last from then on: pods that come and go are
// no sign that the scheduler would not refuse the gang again. In a domain they come and go all the time: it is left out until its time is
// over.
func (l *ledger) podLeft(pod *corev1.Pod) {
	if len(l.refusals) == 0 || pod.Spec.NodeName == "" {
		return
	}
	l.endRefusals(func(graph types.NamespacedName, one *refusal) bool {
		own := pod.Namespace == graph.Namespace && pod.Labels[render.LabelGraph] == render.LabelValue(graph.Name)
		return !own && one.place.Host == pod.Spec.NodeName
	}, false)
}

// endRefusals ends refusals and has their graphs evaluated again. Those that are not forgotten come last from then on.
func (l *ledger) endRefusals(ends func(types.NamespacedName, *refusal) bool, forget bool) {
	now := l.clock.Now()
	for graph, shapes := range l.refusals {
		for shape, list := range shapes {
			ended := false
			for i := range list {
				if one := &list[i]; (forget || now.Before(one.until)) && ends(graph, one) {
					one.until, ended = earlier(one.until, now), true
				}
			}
			if !ended {
				continue
			}
			if forget {
				l.refusals.set(graph, shape, slices.DeleteFunc(list, func(one refusal) bool { return ends(graph, &one) }))
			}
			l.refusalsEnded[graph] = true
			l.wakeLoop()
		}
	}
}

// endedRefusals are the graphs to look at again, because places may be used again that were left out for them.
func (l *ledger) endedRefusals() []types.NamespacedName {
	graphs := slices.Collect(maps.Keys(l.refusalsEnded))
	clear(l.refusalsEnded)
	return graphs
}

// capacityFor reports whether a plan without refusals places a replica that is refused with them.
func capacityFor(trial map[gang.Key]placement.ReplicaResult) bool {
	for _, one := range trial {
		if one.Refusal == nil {
			return true
		}
	}
	return false
}

// noteRefusals has replicas say that a scheduler refused them wherever they have capacity, place by place. trial is what a plan without
// refusals answers to them: where that has no capacity either, its numbers are those that count.
func (l *ledger) noteRefusals(r *gang.Request, trial map[gang.Key]placement.ReplicaResult, waiting []gang.Waiting, d *decision) {
	now := l.clock.Now()
	for i := range waiting {
		w := &waiting[i]
		key := gang.Key{Component: w.Component, Ordinal: w.Ordinal}
		again, asked := trial[key]
		switch {
		case w.Refusal == nil || !asked:
		case again.Refusal != nil:
			w.Code, w.Message, w.Refusal = again.Refusal.Code, again.Refusal.Message(), again.Refusal
		default:
			said := cmp.Or(l.refusals.said(d.graph, r.ShapesOf(key), now), l.refusals.said(d.graph, nil, now))
			w.Code, w.Refusal = gang.CodeRefusedEverywhere, nil
			w.Message = limit.Text("it has capacity only where a scheduler refused it: "+said, limit.Condition)
		}
	}
	if next := l.refusals.nextEnd(d.graph, now); len(waiting) > 0 && !next.IsZero() {
		d.lookAt(next)
	}
}
