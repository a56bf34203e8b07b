// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"cmp"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// keeper decides whose turn it is to have hosts kept. Hosts are kept for one graph at a time. Among the graphs that have waited long enough the
// highest priority comes first, then the oldest. A namespace whose hosts were kept without success rests for as long again, so that no
// tenant can hold hosts all the time.
type keeper struct {
	// after is how long a graph waits for its turn, 0 for never; lasts is how long a turn lasts.
	after, lasts time.Duration
	// share is the largest share of a topology's nodes that is kept.
	share float64
	// current is whose turn it is; nil for nobody's.
	current *keptHosts
	// line are the graphs with a gang that has no capacity.
	line map[types.NamespacedName]*inLine
	// rests is until when a namespace has no turn.
	rests map[string]time.Time
}

// inLine is a graph with a gang that has no capacity.
type inLine struct {
	since    time.Time
	priority int32
	created  time.Time
	// tooMany says why no hosts are kept for it, in the last turn it had; "" when that is not so.
	tooMany string
}

func newKeeper(o Options) keeper {
	return keeper{
		after: max(o.KeepAfter, 0), lasts: o.KeepFor, share: o.KeepShare, line: map[types.NamespacedName]*inLine{}, rests: map[string]time.Time{},
	}
}

// join adds a graph to the line, or brings its entry up to date.
func (k *keeper) join(name types.NamespacedName, priority int32, created, now time.Time) *inLine {
	entry := k.line[name]
	if entry == nil {
		entry = &inLine{since: now, created: created}
		k.line[name] = entry
	}
	entry.priority = priority
	return entry
}

// wait is how long a graph in line waits until it may have its turn.
func (k *keeper) wait(name types.NamespacedName, now time.Time) time.Duration {
	return max(k.after-now.Sub(k.line[name].since), k.rests[name.Namespace].Sub(now), 0)
}

// next is the graph that has the next turn now; false when none has waited long enough, and while another one of its priority has its turn.
func (k *keeper) next(now time.Time) (types.NamespacedName, bool) {
	var best types.NamespacedName
	found := false
	for name := range k.line {
		if k.wait(name, now) == 0 && (!found || k.before(name, best)) {
			best, found = name, true
		}
	}
	return best, found && (k.current == nil || k.current.priority < k.line[best].priority)
}

func (k *keeper) before(a, b types.NamespacedName) bool {
	x, y := k.line[a], k.line[b]
	return cmp.Or(cmp.Compare(y.priority, x.priority), x.created.Compare(y.created), cmp.Compare(a.String(), b.String())) < 0
}

// most is how many of a topology's nodes may be kept.
func (k *keeper) most(nodes int) int { return int(k.share * float64(nodes)) }

// rest ends the turn of a namespace that had it without success.
func (k *keeper) rest(namespace string, now time.Time) {
	for other, until := range k.rests {
		if !now.Before(until) {
			delete(k.rests, other)
		}
	}
	k.rests[namespace] = now.Add(k.lasts)
}
