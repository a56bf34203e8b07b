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

// turnEvery is how many gangs are asked for until one is chosen by its namespace's turn alone. Without it, a namespace that always has a
// new gang of a high priority would keep the others from asking.
const turnEvery = 4

// served remembers when each namespace was last asked for, as a running number.
type served struct {
	begun uint64
	last  map[string]turn
}

type turn struct {
	number uint64
	at     time.Time
}

// begins notes that a gang of a namespace is asked for.
func (s *served) begins(namespace string, now time.Time) {
	if s.last == nil {
		s.last = map[string]turn{}
	}
	s.begun++
	s.last[namespace] = turn{s.begun, now}
}

// forget drops namespaces that no gang waits in, and of which none was asked for since the longest pause.
func (s *served) forget(waiting map[string]bool, now time.Time) {
	for namespace, last := range s.last {
		if !waiting[namespace] && now.After(last.at.Add(LongestPause+Patience)) {
			delete(s.last, namespace)
		}
	}
}

// candidate is a gang that may be asked for now.
type candidate struct {
	gang *Gang
	name string
	*memory
}

// retried reports whether the gang was given up before.
func (c candidate) retried() bool { return c.pauses > 0 }

// begin asks for gangs in order, while they fit the bound. The first that does not fit ends it: a later one would overtake it for ever.
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

// nextOf is the index of the gang to ask for next.
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

// byRank has gangs that were never given up first, those of higher priority before others; then the namespace with the fewest pods that are
// asked for. Priority does not count between gangs that were given up: a gang that no node comes for would always win.
func (r *round) byRank(a, b candidate) int {
	priority := 0
	if !a.retried() {
		priority = cmp.Compare(b.gang.Priority, a.gang.Priority)
	}
	share := cmp.Compare(r.share[a.gang.Graph.Namespace], r.share[b.gang.Graph.Namespace])
	return cmp.Or(bools.Compare(a.retried(), b.retried()), priority, share, r.byTurn(a, b))
}

// byTurn has the namespace first that was asked for longest ago.
func (r *round) byTurn(a, b candidate) int {
	last := r.planner.last
	return cmp.Or(cmp.Compare(last[a.gang.Graph.Namespace].number, last[b.gang.Graph.Namespace].number), a.within(b))
}

// within orders the gangs of one namespace: those that were never given up by priority and age, then the others in turn.
func (c candidate) within(other candidate) int {
	return cmp.Or(bools.Compare(c.retried(), other.retried()), c.until.Compare(other.until), inOrder(c.gang, other.gang))
}

// inOrder has the higher priority first, then the gang that waits longest.
func inOrder(a, b *Gang) int {
	return cmp.Or(-cmp.Compare(a.Priority, b.Priority), a.Since.Compare(b.Since), strings.Compare(a.Graph.String(), b.Graph.String()),
		strings.Compare(a.Name, b.Name))
}
