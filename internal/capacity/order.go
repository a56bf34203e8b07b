// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package capacity

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/trellis-k8s/trellis/internal/bools"
)

// turnEvery is the interval of turns: one of every turnEvery capacity requests goes to the namespace whose last request is the oldest,
// regardless of priority. Without turns, a namespace that keeps adding gangs of high priority would exclude all other namespaces.
const turnEvery = 4

// served holds the serial number of each namespace's last capacity request.
type served struct {
	begun uint64
	last  map[string]turn
}

type turn struct {
	number uint64
	at     time.Time
}

// begins records a new capacity request of a namespace.
func (s *served) begins(namespace string, now time.Time) {
	if s.last == nil {
		s.last = map[string]turn{}
	}
	s.begun++
	s.last[namespace] = turn{s.begun, now}
}

// forget drops a namespace without waiting gangs, once the longest possible pause after its last request has ended.
func (s *served) forget(waiting map[string]bool, now time.Time) {
	for namespace, last := range s.last {
		if !waiting[namespace] && now.After(last.at.Add(LongestPause+Patience)) {
			delete(s.last, namespace)
		}
	}
}

// candidate is a gang for which a capacity request may begin now.
type candidate struct {
	gang *Gang
	name string
	*memory
}

// retried reports whether an earlier request for the gang was given up.
func (c candidate) retried() bool { return c.pauses > 0 }

// begin starts capacity requests in order, within the limit. It stops at the first gang beyond the limit, so that later, smaller gangs
// cannot overtake this gang forever.
func (r *round) begin(candidates []candidate) {
	for len(candidates) > 0 {
		at := r.nextOf(candidates)
		c := candidates[at]
		if r.pods+c.gang.Pods() > r.planner.MaxPods {
			return
		}
		r.planner.begins(c.gang.Graph.Namespace, r.now)
		r.ask(c.gang, c.name, c.memory, r.existing[c.name])
		candidates = slices.Delete(candidates, at, at+1)
	}
}

// nextOf returns the index of the candidate whose request begins next.
func (r *round) nextOf(candidates []candidate) int {
	order := r.byRank
	if (r.planner.begun+1)%turnEvery == 0 {
		order = r.byTurn
	}
	best := 0
	for i := range candidates {
		if order(candidates[i], candidates[best]) < 0 {
			best = i
		}
	}
	return best
}

// byRank orders gangs: first requests before retries, then by priority, then by the fewest requested pods of the namespace, and then by
// turn. It ignores priority between retries, because otherwise an unsatisfiable gang of high priority would always come first.
func (r *round) byRank(a, b candidate) int {
	priority := 0
	if !a.retried() {
		priority = cmp.Compare(b.gang.Priority, a.gang.Priority)
	}
	share := cmp.Compare(r.share[a.gang.Graph.Namespace], r.share[b.gang.Graph.Namespace])
	return cmp.Or(bools.Compare(a.retried(), b.retried()), priority, share, r.byTurn(a, b))
}

// byTurn orders gangs by the last request of their namespaces, the oldest request first.
func (r *round) byTurn(a, b candidate) int {
	last := r.planner.last
	return cmp.Or(cmp.Compare(last[a.gang.Graph.Namespace].number, last[b.gang.Graph.Namespace].number), a.within(b))
}

// within orders the gangs of one namespace: first requests by priority and age, then retries by the end of their pause.
func (c candidate) within(other candidate) int {
	return cmp.Or(bools.Compare(c.retried(), other.retried()), c.until.Compare(other.until), inOrder(c.gang, other.gang))
}

// inOrder orders gangs by priority, then by waiting time.
func inOrder(a, b *Gang) int {
	return cmp.Or(-cmp.Compare(a.Priority, b.Priority), a.Since.Compare(b.Since), strings.Compare(a.Graph.String(), b.Graph.String()),
		strings.Compare(a.Name, b.Name))
}
