// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"cmp"
	"slices"
	"strings"

	"github.com/trellis-k8s/trellis/internal/topology"
)

// unit is a Group prepared for one search: paths are resolved to domains, pods are sorted by shape, the hardest parts come first.
type unit struct {
	group *Group
	// required and preferred are levels; preferred is NoLevel unless it is narrower than required.
	required, preferred int
	// within is the domain that must hold the unit; gone: this domain no longer has nodes. The domains hint and near are tried first.
	within topology.DomainID
	gone   bool
	hint   topology.DomainID
	near   []topology.DomainID
	own    []*demand
	subs   []*unit
	spread *spreading
	// apart is set when the unit's own pods must be on different hosts.
	apart *apart
	// total counts all pods in the unit by shape, scarcest first; want counts the later replicas that the choice of a domain considers.
	total []count
	want  []kind
	size  int
	// domain is the domain that the search has chosen.
	domain topology.DomainID
}

// demand is the pods of one shape that belong directly to one group.
type demand struct {
	view *topology.View
	pods []Pod
	// apart is shared with the unit of the demand.
	apart *apart
	// hosts has one entry per pod once settle has assigned the pods to hosts.
	hosts []topology.NodeID
}

// count is a number of pods of one shape.
type count struct {
	view *topology.View
	pods int
}

// prepare resolves a group and all groups in it.
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
		if i == 0 { // the pods of most gangs have one shape
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

// kind is a number of replicas with the same requests.
type kind struct {
	replicas int
	counts   []count
}

// addKind counts one more replica and returns the index of its kind.
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

// holds returns an upper bound on the number of replicas of the kind that a domain holds alongside the taken pods. It counts each shape
// separately.
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

// harder sorts shapes: first the shape of which the cluster holds the fewest pods, then the larger shape.
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

// compareRequests compares two shapes by the sum of their requests for extended resources, then by the sum of their other requests.
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

// hardest sorts siblings. Units that are tied to a domain come first, then units with a narrower required level, then units that need a
// larger share of the cluster.
func hardest(a, b *unit) int {
	return cmp.Or(
		-cmp.Compare(min(a.within, 0), min(b.within, 0)),
		-cmp.Compare(a.required, b.required),
		-cmp.Compare(a.pressure(), b.pressure()),
		strings.Compare(a.group.Name, b.group.Name),
	)
}

// pressure returns the share of the cluster's capacity that the unit needs, in millionths, for the shape with the largest share.
func (u *unit) pressure() int {
	most := 0
	for _, c := range u.total {
		most = max(most, c.pods*1_000_000/max(c.view.Fit(topology.Root), 1))
	}
	return most
}

// spreads reports whether replicas in the unit have a required spread.
func (u *unit) spreads() bool {
	return u.spread != nil && u.spread.hard || slices.ContainsFunc(u.subs, (*unit).spreads)
}

// ruled reports whether a rule about more than one node applies to any pod of the unit.
func (u *unit) ruled() bool {
	return slices.ContainsFunc(u.own, func(d *demand) bool { return len(d.shape().Rules()) > 0 }) || slices.ContainsFunc(u.subs, (*unit).ruled)
}

// blocked returns the reason that keeps pods of the unit off every node regardless of capacity; "" for none.
func (u *unit) blocked() (why string) {
	u.all(func(one *unit) {
		for _, d := range one.own {
			why = cmp.Or(why, d.shape().Blocked())
		}
	})
	return why
}

// together reports whether rules about other pods apply to any pod of the unit.
func (u *unit) together() bool {
	return slices.ContainsFunc(u.own, func(d *demand) bool { return d.together() }) || slices.ContainsFunc(u.subs, (*unit).together)
}

// all calls f for the unit and all units in it.
func (u *unit) all(f func(*unit)) {
	f(u)
	for _, s := range u.subs {
		s.all(f)
	}
}

// demands counts the demands in a unit. For a unit with one demand, counting pods gives the exact answer, so the second pass of a search is
// not needed.
func (u *unit) demands() int {
	n := len(u.own)
	for _, s := range u.subs {
		n += s.demands()
	}
	return n
}
