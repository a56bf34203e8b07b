// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"cmp"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/trellis-k8s/trellis/internal/repack"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// domainReserver chooses the graph for which hosts of a domain are reserved. One graph at a time has a turn. Among the graphs that have
// waited long enough, the graph with the highest priority comes first, then the oldest. After a turn without a placement, the graph's
// namespace gets no turn for as long as a turn lasts, so that no tenant can keep hosts reserved all the time.
type domainReserver struct {
	cluster *topology.Cluster
	// after is the time that a graph waits before its turn; 0: only moves give turns. lasts is the duration of a turn.
	after, lasts time.Duration
	// share is the maximum share of a topology's nodes that may be reserved.
	share float64
	// current is the reservation of the current turn; nil for none.
	current *domainReservation
	// line are the graphs with a gang for which there is no capacity.
	line map[types.NamespacedName]*inLine
	// rests maps namespaces to the time before which they get no turn.
	rests map[string]time.Time
}

// inLine is a graph with a gang for which there is no capacity.
type inLine struct {
	since    time.Time
	priority int32
	created  time.Time
	// tooMany explains that the graph needed more hosts in its last turn than may be reserved; "" otherwise.
	tooMany string
}

func newDomainReserver(o Options, c *topology.Cluster) domainReserver {
	return domainReserver{
		cluster: c, after: max(o.ReserveDomainAfter, 0), lasts: o.ReserveDomainFor, share: o.ReserveShare,
		line: map[types.NamespacedName]*inLine{}, rests: map[string]time.Time{},
	}
}

// join adds a graph to the line, or updates its priority there.
func (r *domainReserver) join(name types.NamespacedName, priority int32, created, now time.Time) *inLine {
	entry := r.line[name]
	if entry == nil {
		entry = &inLine{since: now, created: created}
		r.line[name] = entry
	}
	entry.priority = priority
	return entry
}

// pause removes a graph from the line, because the graph is not planned now or is not known to lack capacity. If the graph has the current
// turn, the turn continues.
func (r *domainReserver) pause(name types.NamespacedName) { delete(r.line, name) }

// wait returns the time until a graph in line may have its turn.
func (r *domainReserver) wait(name types.NamespacedName, now time.Time) time.Duration {
	return max(r.after-now.Sub(r.line[name].since), r.rests[name.Namespace].Sub(now), 0)
}

// next returns the graph that gets its turn now; false if no graph has waited long enough, or the graph of the current turn has the same or
// a higher priority.
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

// most returns how many nodes may be reserved in a topology with the given number of nodes.
func (r *domainReserver) most(nodes int) int { return int(r.share * float64(nodes)) }

// rest denies a namespace further turns for the duration of one turn. It is called after a turn that ended without a placement.
func (r *domainReserver) rest(namespace string, now time.Time) {
	for other, until := range r.rests {
		if !now.Before(until) {
			delete(r.rests, other)
		}
	}
	r.rests[namespace] = now.Add(r.lasts)
}

// domainReservation reserves hosts of one domain for a waiting graph. Pods of other graphs are not newly placed on these hosts, so that
// small gangs do not starve a large gang by taking every host that becomes free. The reservation has as many hosts as the gang needs, and
// at most a share of the topology's nodes. Running pods stay on the hosts, and successors of lost pods return there. Graphs with a higher
// priority, and older graphs with the same priority, may use the hosts. The turn ends when the gang is placed, or after ReserveDomainFor.
type domainReservation struct {
	graph    types.NamespacedName
	priority int32
	created  time.Time
	levels   topology.Levels
	domain   topology.Path
	nodes    []string
	until    time.Time
	// moves is the cost of the moves that free the hosts; zero if hosts become free without moves. movers are the deployments whose
	// replicas move. They may not use the reserved hosts, whatever their priority.
	moves  repack.Cost
	movers map[types.NamespacedName]bool
}
