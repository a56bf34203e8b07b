// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"cmp"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/trellis-k8s/trellis/internal/topology"
)

// domainReserver decides whose turn it is to have hosts of a domain reserved. One graph has them at a time. Among the graphs that have
// waited long enough the highest priority comes first, then the oldest. A namespace that did not use its reservation rests for as long
// again, so that no tenant can hold hosts all the time.
type domainReserver struct {
	cluster *topology.Cluster
	// after is how long a graph waits for its turn, 0 for never; lasts is how long a turn lasts.
	after, lasts time.Duration
	// share is the largest share of a topology's nodes that is reserved.
	share float64
	// current is whose turn it is; nil for no one's.
	current *domainReservation
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
	// tooMany explains why no hosts are reserved for it, in the last turn it had; "" when that is not so.
	tooMany string
}

func newDomainReserver(o Options, c *topology.Cluster) domainReserver {
	return domainReserver{
		cluster: c, after: max(o.ReserveDomainAfter, 0), lasts: o.ReserveDomainFor, share: o.ReserveShare,
		line: map[types.NamespacedName]*inLine{}, rests: map[string]time.Time{},
	}
}

// join adds a graph to the line, or brings its entry up to date.
func (r *domainReserver) join(name types.NamespacedName, priority int32, created, now time.Time) *inLine {
	entry := r.line[name]
	if entry == nil {
		entry = &inLine{since: now, created: created}
		r.line[name] = entry
	}
	entry.priority = priority
	return entry
}

// pause takes a graph out of the line that is not planned now, or of which it is not known whether there is capacity. Its turn continues.
func (r *domainReserver) pause(name types.NamespacedName) { delete(r.line, name) }

// wait is how long a graph in line waits until it may have its turn.
func (r *domainReserver) wait(name types.NamespacedName, now time.Time) time.Duration {
	return max(r.after-now.Sub(r.line[name].since), r.rests[name.Namespace].Sub(now), 0)
}

// next is the graph that has the next turn now; false when none has waited long enough, and while another one of its priority has its turn.
func (r *domainReserver) next(now time.Time) (types.NamespacedName, bool) {
	var best types.NamespacedName
	found := false
	for name := range r.line {
		if r.wait(name, now) == 0 && (!found || r.before(name, best)) {
			best, found = name, true
		}
	}
	return best, found && (r.current == nil || r.current.priority < r.line[best].priority)
}

func (r *domainReserver) before(a, b types.NamespacedName) bool {
	x, y := r.line[a], r.line[b]
	return cmp.Or(cmp.Compare(y.priority, x.priority), x.created.Compare(y.created), cmp.Compare(a.String(), b.String())) < 0
}

// most is how many of a topology's nodes may be reserved.
func (r *domainReserver) most(nodes int) int { return int(r.share * float64(nodes)) }

// rest ends the turn of a namespace that had it without success.
func (r *domainReserver) rest(namespace string, now time.Time) {
	for other, until := range r.rests {
		if !now.Before(until) {
			delete(r.rests, other)
		}
	}
	r.rests[namespace] = now.Add(r.lasts)
}

// domainReservation is hosts of one domain that are reserved for a waiting graph: newcomers stay off them, so that a large gang is not
// starved by small ones that take every host as it becomes free. They are hosts that the gang can use, as many as it needs, and at most a
// share of the topology's nodes. What runs there stays and, when it is lost, returns there. Graphs of a higher priority, and older ones of
// the same, may use them. The turn ends when the gang is placed, or after ReserveDomainFor.
type domainReservation struct {
	graph    types.NamespacedName
	priority int32
	created  time.Time
	levels   topology.Levels
	domain   topology.Path
	nodes    []string
	until    time.Time
	// freed says which moves free the hosts; "" when they become free by themselves. Replicas of the deployments in movers stay off the
	// hosts, too.
	freed  string
	movers map[types.NamespacedName]bool
}
