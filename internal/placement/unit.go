// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"cmp"
	"slices"
	"strings"

	"github.com/trellis-k8s/trellis/internal/topology"
)

// unit is a Group made ready for one search: paths are domains, pods are sorted by shape, what is hard comes first.
type unit struct {
	group *Group
	// required and preferred are levels; preferred is NoLevel unless it is narrower than required.
	required, preferred int
	// within bounds the unit; gone says that it was asked for and has no nodes. hint and near are tried first.
	within topology.DomainID
	gone   bool
	hint   topology.DomainID
	near   []topology.DomainID
	own    []*demand
	subs   []*unit
	spread *spreading
	// apart is set when the unit's own pods go to hosts of their own.
	apart *apart
	// total is everything in the unit by shape, scarcest first; want is the replicas still to come.
	total []count
	want  []kind
	size  int
	// domain is where the search put it.
	domain topology.DomainID
}

// demand is the pods of one shape that belong to one group directly.
type demand struct {
	view *topology.View
	pods []Pod
	// apart is that of the unit.
	apart *apart
	// hosts has one entry per pod once placed.
	hosts []topology.NodeID
}

// count is a number of pods of one shape.
type count struct {
	view *topology.View
	pods int
}

// prepare resolves a group and everything in it.
func prepare(t *topology.Tree, g *Group) *unit {
	u := &unit{
		group: g, required: g.Required, preferred: topology.NoLevel, within: topology.Nowhere, hint: topology.Nowhere, spread: g.spread,
	}
	if len(t.Levels()) == 0 {
		u.required = topology.NoLevel
	} else if g.Preferred > g.Required && g.Preferred < len(t.Levels()) {
		u.preferred = g.Preferred
	}
	if len(g.Within) > 0 {
		d, found := t.Find(g.Within)
		u.within, u.gone = d, !found
	}
	if len(g.Hint) > 0 {
		if d, found := t.Find(g.Hint); found {
			u.hint = d
		}
	}
	for _, p := range g.near {
		if d, found := t.Find(p); found && !slices.Contains(u.near, d) {
			u.near = append(u.near, d)
		}
	}
	u.apart = apartOf(t, g)
	u.gather(t, g)
	return u
}

func (u *unit) gather(t *topology.Tree, g *Group) {
	for i, p := range g.Pods {
		u.addPod(t, p)
		if i == 0 { // most gangs are of one kind
			u.own[0].pods = slices.Grow(u.own[0].pods, len(g.Pods)-1)
		}
	}
	for _, sub := range g.Groups {
		s := prepare(t, sub)
		u.subs = append(u.subs, s)
		u.size += s.size
		for _, c := range s.sharing(t) {
			u.total = addCount(u.total, c.view, c.pods)
		}
	}
	for _, replica := range g.want {
		u.want, _ = addKind(u.want, t, replica)
	}
	slices.SortStableFunc(u.own, func(a, b *demand) int { return harder(a.view, b.view) })
	slices.SortFunc(u.total, func(a, b count) int { return harder(a.view, b.view) })
	slices.SortStableFunc(u.subs, hardest)
}

func (u *unit) addPod(t *topology.Tree, p Pod) {
	u.size++
	for _, d := range u.own {
		if d.shape() == p.Shape || d.shape().Key() == p.Shape.Key() {
			d.pods = append(d.pods, p)
			u.total = addCount(u.total, d.view, 1)
			return
		}
	}
	view := t.View(u.apart.shape(p.Shape))
	u.own = append(u.own, &demand{view: view, pods: []Pod{p}, apart: u.apart})
	u.total = addCount(u.total, view, 1)
}

// kind is a number of replicas that ask for the same.
type kind struct {
	replicas int
	counts   []count
}

// addKind counts one more replica and says of which kind.
func addKind(kinds []kind, t *topology.Tree, replica []Pod) ([]kind, int) {
	var counts []count
	for _, pod := range replica {
		counts = addCount(counts, t.View(pod.Shape), 1)
	}
	at := slices.IndexFunc(kinds, func(k kind) bool { return slices.Equal(k.counts, counts) })
	if at < 0 {
		at = len(kinds)
		kinds = append(kinds, kind{counts: counts})
	}
	kinds[at].replicas++
	return kinds, at
}

// holds is how many replicas of the kind a domain holds at most alongside what takes, shape by shape.
func (k *kind) holds(d topology.DomainID, taken []count) int {
	most := k.replicas
	for _, c := range k.counts {
		most = min(most, max(c.view.Fit(d)-podsOf(taken, c.view), 0)/c.pods)
	}
	return most
}

func podsOf(counts []count, v *topology.View) int {
	for i := range counts {
		if counts[i].view == v {
			return counts[i].pods
		}
	}
	return 0
}

func addCount(counts []count, v *topology.View, pods int) []count {
	for i := range counts {
		if counts[i].view == v {
			counts[i].pods += pods
			return counts
		}
	}
	return append(counts, count{v, pods})
}

// harder orders shapes: the one of which the cluster holds fewest comes first, then the larger one.
func harder(a, b *topology.View) int {
	if a == b {
		return 0
	}
	return cmp.Or(
		cmp.Compare(a.Fit(topology.Root), b.Fit(topology.Root)),
		-compareRequests(a.Shape().Requests(), b.Shape().Requests()),
		strings.Compare(a.Shape().Key(), b.Shape().Key()),
	)
}

// compareRequests compares how much of extended resources two shapes ask for, then how much of the others.
func compareRequests(a, b []topology.Request) int {
	aExtended, aPlain := bulk(a)
	bExtended, bPlain := bulk(b)
	return cmp.Or(cmp.Compare(aExtended, bExtended), cmp.Compare(aPlain, bPlain))
}

func bulk(requests []topology.Request) (extended, plain int64) {
	for _, r := range requests {
		if strings.Contains(r.Name, "/") {
			extended += r.Amount
		} else {
			plain += r.Amount
		}
	}
	return extended, plain
}

// hardest orders siblings: those without a choice first, then the narrowest domain, then the largest share of the cluster.
func hardest(a, b *unit) int {
	return cmp.Or(
		-cmp.Compare(min(a.within, 0), min(b.within, 0)),
		-cmp.Compare(a.required, b.required),
		-cmp.Compare(a.pressure(), b.pressure()),
		strings.Compare(a.group.Name, b.group.Name),
	)
}

// pressure is the largest share that the unit asks of what the cluster holds of a shape, in millionths.
func (u *unit) pressure() int {
	most := 0
	for _, c := range u.total {
		most = max(most, c.pods*1_000_000/max(c.view.Fit(topology.Root), 1))
	}
	return most
}

// spreads reports whether replicas in the unit must be spread.
func (u *unit) spreads() bool {
	return u.spread != nil && u.spread.hard || slices.ContainsFunc(u.subs, (*unit).spreads)
}

// ruled reports whether more than what each node has by itself binds some of the unit's pods.
func (u *unit) ruled() bool {
	return slices.ContainsFunc(u.own, func(d *demand) bool { return len(d.shape().Rules()) > 0 }) || slices.ContainsFunc(u.subs, (*unit).ruled)
}

// blocked describes what keeps pods of the unit off every node, whatever is free; "" for nothing.
func (u *unit) blocked() (why string) {
	u.all(func(one *unit) {
		for _, d := range one.own {
			why = cmp.Or(why, d.shape().Blocked())
		}
	})
	return why
}

// together reports whether rules about other pods bind some of the unit's.
func (u *unit) together() bool {
	return slices.ContainsFunc(u.own, func(d *demand) bool { return d.together() }) || slices.ContainsFunc(u.subs, (*unit).together)
}

// all calls f for the unit and everything in it.
func (u *unit) all(f func(*unit)) {
	f(u)
	for _, s := range u.subs {
		s.all(f)
	}
}

// demands counts the searches for hosts that a unit takes; a unit with one is solved exactly by counting.
func (u *unit) demands() int {
	n := len(u.own)
	for _, s := range u.subs {
		n += s.demands()
	}
	return n
}
