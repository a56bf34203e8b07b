// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package capacity

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// Patience is how long an ask stays without its gang being placed.
	Patience = 15 * time.Minute
	// Settle is how long the pods of a gang exist before it is asked for: a gang that is being recreated may still find its place.
	Settle = 5 * time.Second
	// FirstPause is how long a gang is not asked for after its first ask has ended without success; each further pause is twice as long.
	FirstPause = 5 * time.Minute
	// LongestPause is where the doubling of pauses ends.
	LongestPause = time.Hour
	// maxReplaced is how many times as many pods as an ask has are created in the place of lost ones.
	maxReplaced = 3
)

// Limits of what is asked for.
type Limits struct {
	// MaxPods is how many pods are asked for at once. A gang of more is not asked for.
	MaxPods int
	// Shapes are the nodes that an autoscaler can add; none: not known.
	Shapes []corev1.ResourceList
	// Settle replaces the constant of that name, for tests; 0 in production.
	Settle time.Duration
}

// Observation is what waits, and what is asked for.
type Observation struct {
	// Gangs that wait for capacity.
	Gangs        []Gang
	Placeholders []Placeholder
	Requests     []Request
	// Unplanned are the deployments of which it is not known what waits: what is asked for their gangs stays for a time.
	Unplanned map[types.UID]bool
}

// Ask is what is to be created for a gang.
type Ask struct {
	// Name is [Gang.Ask].
	Name string
	Gang *Gang
	// Fresh: nothing of it exists yet.
	Fresh bool
	// Missing are the placeholders to create, as set and index; for a ProvisioningRequest it is empty.
	Missing []Index
}

// Index is one pod of an ask.
type Index struct{ Set, Pod int }

// Note is what there is to say of a gang.
type Note struct {
	Gang *Gang
	Why  string
}

// Steps are what is to be done.
type Steps struct {
	Create             []Ask
	DeletePlaceholders []Placeholder
	DeleteRequests     []Request
	// Asked are the gangs that capacity is asked for now.
	Asked []*Gang
	// Kept are the deployments that capacity is asked for without that it is known what waits.
	Kept map[types.UID]bool
	// Refused gangs are not asked for, and GivenUp are those whose ask ends now without success.
	Refused, GivenUp []Note
	// Next is when to look again without an event; the zero time: not before one.
	Next time.Time
}

// Planner remembers for how long each ask stands, which have ended without success, and which namespaces were asked for last. What it
// remembers may be lost: then gangs are asked for again without a pause, and all namespaces are equal.
type Planner struct {
	Limits
	asks map[string]*memory
	cleared
	served
}

// memory of one ask.
type memory struct {
	// since is when it was first asked for; zero while it is not.
	since time.Time
	// seen: something of it exists, or did. replaced counts the pods that were created in the place of lost ones.
	seen     bool
	replaced int
	// pauses counts the asks without success, and until ends the last pause.
	pauses int
	until  time.Time
}

// end of an ask.
func (m *memory) end() { m.since, m.seen, m.replaced = time.Time{}, false, 0 }

// Plan compares what is asked for with what waits.
func (p *Planner) Plan(o Observation, now time.Time) Steps {
	p.forget(o.Gangs, now)
	gangs := slices.Clone(o.Gangs)
	slices.SortStableFunc(gangs, func(a, b Gang) int { return inOrder(&a, &b) })
	r := &round{planner: p, now: now, existing: existingOf(o), wanted: map[string]bool{}, share: map[string]int{}}
	r.steps.Kept = map[types.UID]bool{}
	r.keepUnplanned(o)
	var candidates []candidate
	for i := range gangs {
		c := candidate{&gangs[i], gangs[i].Ask(), p.memoryOf(gangs[i].Ask())}
		switch stands := r.existing[c.name].exists() || !c.since.IsZero(); {
		case !r.due(c):
		case !stands:
			candidates = append(candidates, c)
		case r.pods+c.gang.Pods() > p.MaxPods: // the bound was lowered
			c.end()
		default: // what is asked for keeps its share
			r.ask(c.gang, c.name, c.memory, r.existing[c.name])
		}
	}
	r.begin(candidates)
	r.deleteRest(o)
	return r.steps
}

// forget drops what is remembered of gangs that do not wait any more, but for pauses: a gang that is recreated for a moment has not been
// placed.
func (p *Planner) forget(gangs []Gang, now time.Time) {
	waiting, namespaces := map[string]bool{}, map[string]bool{}
	for i := range gangs {
		waiting[gangs[i].Ask()], namespaces[gangs[i].Graph.Namespace] = true, true
	}
	p.cleared.forget(waiting)
	p.served.forget(namespaces, now)
	for name, m := range p.asks {
		if !waiting[name] && now.After(m.until.Add(LongestPause)) {
			delete(p.asks, name)
		} else if !waiting[name] {
			m.end()
		}
	}
}

func (p *Planner) memoryOf(name string) *memory {
	if p.asks == nil {
		p.asks = map[string]*memory{}
	}
	if p.asks[name] == nil {
		p.asks[name] = &memory{}
	}
	return p.asks[name]
}

// round is one look at everything.
type round struct {
	planner  *Planner
	now      time.Time
	existing map[string]existing
	wanted   map[string]bool
	pods     int
	// share is how many pods are asked for, by namespace.
	share map[string]int
	steps Steps
}

// due reports whether a gang is to be asked for now, as far as the gang itself decides.
func (r *round) due(c candidate) bool {
	g, m, e := c.gang, c.memory, r.existing[c.name]
	if why := r.bars(g); why != "" {
		r.steps.Refused = append(r.steps.Refused, Note{g, why})
		return false
	}
	if r.now.Before(m.until) { // what still exists of an ask that has ended is deleted below
		r.at(m.until)
		return false
	}
	if since := e.since; !since.IsZero() && (m.since.IsZero() || since.Before(m.since)) {
		m.since = since // an earlier leader asked
	}
	if why := r.ended(g, m, e); why != "" {
		r.giveUp(g, m, why)
		return false
	}
	settled := g.Since.Add(cmp.Or(r.planner.Settle, Settle))
	if !e.exists() && r.now.Before(settled) {
		r.at(settled)
		return false
	}
	return true
}

// bars explains why a gang is never asked for as it is.
func (r *round) bars(g *Gang) string {
	switch {
	case !slices.Contains(Kinds, g.Kind):
		return fmt.Sprintf("the annotation %s is %q; use one of %s, %s", AnnotationKind, g.Kind, strings.Join(Kinds, ", "), KindNone)
	case g.Bars != "":
		return g.Bars
	case g.Kind == KindProvisioningRequest && len(g.Sets) > maxPodSets:
		return fmt.Sprintf("it has pods of %d shapes, and a ProvisioningRequest has %d podsets at most", len(g.Sets), maxPodSets)
	case g.Pods() > r.planner.MaxPods:
		return fmt.Sprintf("it has %d pods, and at most %d are asked for at once (--capacity-max-pods)", g.Pods(), r.planner.MaxPods)
	}
	return g.tooLarge(r.planner.Shapes)
}

// ended explains why an ask ends without success; "" while it stands.
func (r *round) ended(g *Gang, m *memory, e existing) string {
	switch {
	case e.over != "":
		return e.over
	case !m.since.IsZero() && !r.now.Before(m.since.Add(Patience)):
		return fmt.Sprintf("it was not placed within %s", Patience)
	case m.replaced > maxReplaced*g.Pods():
		return fmt.Sprintf("%d placeholders were lost", m.replaced)
	}
	return ""
}

func (r *round) giveUp(g *Gang, m *memory, why string) {
	m.end()
	m.pauses++
	m.until = r.now.Add(pauseAfter(m.pauses))
	r.at(m.until)
	r.steps.GivenUp = append(r.steps.GivenUp, Note{g, fmt.Sprintf("%s; it is asked for again after %s", why, pauseAfter(m.pauses))})
}

// pauseAfter is how long a gang is not asked for after so many asks without success.
func pauseAfter(times int) time.Duration {
	pause := FirstPause
	for range times - 1 {
		pause = min(2*pause, LongestPause)
	}
	return pause
}

func (r *round) ask(g *Gang, name string, m *memory, e existing) {
	if m.since.IsZero() {
		m.since = r.now
	}
	r.pods += g.Pods()
	r.share[g.Graph.Namespace] += g.Pods()
	r.wanted[name] = true
	r.steps.Asked = append(r.steps.Asked, g)
	r.at(m.since.Add(Patience))
	ask := Ask{Name: name, Gang: g, Fresh: !e.exists(), Missing: e.missing(g)}
	if m.seen = m.seen || e.exists(); m.seen {
		m.replaced += r.planner.cleared.lost(name, ask.Missing)
	}
	if len(ask.Missing) > 0 || g.Kind == KindProvisioningRequest && !e.request {
		r.steps.Create = append(r.steps.Create, ask)
	}
}

// at has everything evaluated again at a time, or before.
func (r *round) at(t time.Time) {
	if r.steps.Next.IsZero() || t.Before(r.steps.Next) {
		r.steps.Next = t
	}
}

// deleteRest deletes what is not asked for any more, and placeholders that do not serve.
func (r *round) deleteRest(o Observation) {
	for _, one := range o.Placeholders {
		if !one.Leaving && (!r.wanted[one.Ask] || !one.serves(r.existing[one.Ask].since)) {
			r.steps.DeletePlaceholders = append(r.steps.DeletePlaceholders, one)
		}
	}
	for _, one := range o.Requests {
		if !one.Leaving && !r.wanted[one.Ask] {
			r.steps.DeleteRequests = append(r.steps.DeleteRequests, one)
		}
	}
}
