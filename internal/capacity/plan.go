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
	// Patience is the maximum duration of a capacity request whose gang is not placed.
	Patience = 15 * time.Minute
	// Settle is the minimum age of a gang's pods before capacity is requested for the gang, because a recreated gang may still find a
	// place.
	Settle = 5 * time.Second
	// FirstPause is the pause after a gang's first unsuccessful capacity request. Each later pause is twice as long as the previous pause,
	// up to LongestPause.
	FirstPause = 5 * time.Minute
	// LongestPause is the maximum pause.
	LongestPause = time.Hour
	// maxReplaced limits the number of placeholders that replace lost placeholders, as a multiple of the number of pods in a capacity
	// request.
	maxReplaced = 3
)

// Limits are the limits of capacity requests.
type Limits struct {
	// MaxPods is the maximum number of pods in all requests at once. No capacity is requested for a larger gang.
	MaxPods int
	// Shapes are the kinds of nodes that an autoscaler can add; empty if unknown.
	Shapes []corev1.ResourceList
	// Settle replaces the constant of the same name in tests; 0 in production.
	Settle time.Duration
}

// Observation contains the waiting gangs and the existing capacity requests.
type Observation struct {
	// Gangs are the gangs that wait for capacity.
	Gangs        []Gang
	Placeholders []Placeholder
	Requests     []Request
	// Unplanned are the deployments whose waiting gangs are unknown. Their capacity requests are kept for a limited time.
	Unplanned map[types.UID]bool
}

// Ask contains the objects to create for a gang's capacity request.
type Ask struct {
	// Name is [Gang.Ask].
	Name string
	Gang *Gang
	// Fresh: no object of the request exists yet.
	Fresh bool
	// Missing are the placeholders to create; empty for a ProvisioningRequest.
	Missing []Index
}

// Index identifies one pod of a capacity request.
type Index struct{ Set, Pod int }

// Note is a message about a gang.
type Note struct {
	Gang *Gang
	Why  string
}

// Steps are the actions that a plan requires.
type Steps struct {
	Create             []Ask
	DeletePlaceholders []Placeholder
	DeleteRequests     []Request
	// Asked are the gangs for which capacity is now requested.
	Asked []*Gang
	// Kept are the deployments whose capacity requests are kept because their waiting gangs are unknown.
	Kept map[types.UID]bool
	// Refused are gangs for which no capacity is requested. GivenUp are gangs whose request ends now without success.
	Refused, GivenUp []Note
	// Next is the time of the next plan if no event triggers a plan earlier; zero if only an event triggers the next plan.
	Next time.Time
}

// Planner stores the start time of each capacity request, the requests that ended without success, and the last request of each namespace.
// If this state is lost, capacity is requested again without a pause, and the turns of namespaces start anew.
type Planner struct {
	Limits
	asks map[string]*memory
	cleared
	served
}

// memory is the state of one gang's capacity requests.
type memory struct {
	// since is the time at which the current request began; zero while no capacity is requested.
	since time.Time
	// seen: objects of the request exist or have existed. replaced is the number of placeholders that were created in place of lost
	// placeholders.
	seen     bool
	replaced int
	// pauses is the number of unsuccessful requests; until is the end of the last pause.
	pauses int
	until  time.Time
}

// end resets the state of a request that has ended.
func (m *memory) end() { m.since, m.seen, m.replaced = time.Time{}, false, 0 }

// Plan compares the existing capacity requests with the waiting gangs, and returns the necessary changes.
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
		case r.pods+c.gang.Pods() > p.MaxPods: // the limit was lowered
			c.end()
		default: // an existing request keeps its share
			r.ask(c.gang, c.name, c.memory, r.existing[c.name])
		}
	}
	r.begin(candidates)
	r.deleteRest(o)
	return r.steps
}

// forget drops the state of gangs that no longer wait. It keeps pauses for some time, because a gang may be absent only because it is being
// recreated.
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

// round is the state of one call of Plan.
type round struct {
	planner  *Planner
	now      time.Time
	existing map[string]existing
	wanted   map[string]bool
	pods     int
	// share is the number of requested pods by namespace.
	share map[string]int
	steps Steps
}

// due reports whether capacity may be requested for a gang now. It considers only this gang, not the limit for all gangs.
func (r *round) due(c candidate) bool {
	g, m, e := c.gang, c.memory, r.existing[c.name]
	if why := r.bars(g); why != "" {
		r.steps.Refused = append(r.steps.Refused, Note{g, why})
		return false
	}
	if r.now.Before(m.until) { // deleteRest deletes the objects of a request that has ended
		r.at(m.until)
		return false
	}
	if since := e.since; !since.IsZero() && (m.since.IsZero() || since.Before(m.since)) {
		m.since = since // an earlier leader made the request
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

// bars returns the reason why no capacity can be requested for a gang as it is now; "" for none.
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

// ended returns the reason why a request ends without success; "" while it continues.
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

// pauseAfter returns the pause after the given number of requests without success.
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

// at schedules the next plan at time t, unless it is already scheduled earlier.
func (r *round) at(t time.Time) {
	if r.steps.Next.IsZero() || t.Before(r.steps.Next) {
		r.steps.Next = t
	}
}

// deleteRest deletes the objects of ended requests, and placeholders that are not useful.
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
