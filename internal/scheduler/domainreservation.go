// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/placement"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// reserveDomain starts, renews, reports or ends the domain reservation of a graph that has just been planned.
func (r *domainReserver) reserveDomain(
	ctx context.Context, dgd *nvidiav1beta1.DynamoGraphDeployment, request *gang.Request, planned *placement.Result, d *decision,
	now time.Time,
) {
	name := d.graph
	if r.after == 0 && !r.has(name) {
		return
	}
	if !refused(planned) {
		d.wakeWaiting(r.leave(name, true, now))
		return
	}
	if r.has(name) { // a reservation that an earlier leader recorded has neither
		r.current.priority, r.current.levels = request.Graph.Priority, request.Graph.Levels
	}
	note := ""
	if r.after > 0 {
		note = r.takeTurn(ctx, dgd, request, planned, d, now)
	}
	if r.has(name) {
		note = fmt.Sprintf("%s reserved for it until %s", r.current.what(), r.current.until.UTC().Format("15:04 MST"))
		if r.current.byMoves() {
			note += ", and " + r.current.described() + " to free them"
		}
	}
	for i := range d.result.Waiting {
		if note != "" && d.result.Waiting[i].Code == placement.CodeInsufficientCapacity {
			d.result.Waiting[i].Noted(note)
		}
	}
}

// takeTurn adds a graph to the line of graphs that wait for a domain reservation, and starts the graph's turn if it is due. If the graph
// already has the current turn, takeTurn chooses the reserved hosts again, unless moves of replicas determine them. note is the message
// about a last turn in which the graph needed too many hosts; "" for none.
func (r *domainReserver) takeTurn(
	ctx context.Context, dgd *nvidiav1beta1.DynamoGraphDeployment, request *gang.Request, planned *placement.Result, d *decision,
	now time.Time,
) (note string) {
	name := d.graph
	entry := r.join(name, request.Graph.Priority, dgd.CreationTimestamp.Time, now)
	if r.has(name) && r.current.byMoves() { // the moves determine the hosts
		d.lookAt(r.current.until)
	} else if r.has(name) {
		d.wakeWaiting(r.renew(request, planned))
	} else if wait := r.wait(name, now); wait > 0 {
		d.lookAt(now.Add(wait))
	} else if next, ok := r.next(now); ok && next == name {
		r.start(ctx, dgd, request, planned, d, now)
	} else if ok {
		d.wake.now = append(d.wake.now, next)
	}
	return entry.tooMany
}

// has reports whether a graph has the current turn.
func (r *domainReserver) has(name types.NamespacedName) bool {
	return r.current != nil && r.current.graph == name
}

// byMoves reports whether moves of replicas free the hosts.
func (d *domainReservation) byMoves() bool { return d.moves.Replicas > 0 }

// described describes the moves that free the hosts, for example: 2 replicas with 8 GPUs move.
func (d *domainReservation) described() string {
	replicas, gpus, verb := "replicas", "GPUs", "move"
	if d.moves.Replicas == 1 {
		replicas, verb = "replica", "moves"
	}
	if d.moves.GPUs == 1 {
		gpus = "GPU"
	}
	return fmt.Sprintf("%d %s with %d %s %s", d.moves.Replicas, replicas, d.moves.GPUs, gpus, verb)
}

func (d *domainReservation) what() string {
	if len(d.nodes) == 1 {
		return d.hosts() + " is"
	}
	return d.hosts() + " are"
}

func (d *domainReservation) hosts() string {
	if len(d.nodes) == 1 {
		return "1 host in " + gang.OrCluster(d.domain)
	}
	return fmt.Sprintf("%d hosts in %s", len(d.nodes), gang.OrCluster(d.domain))
}

func refused(result *placement.Result) bool {
	for i := range result.Replicas {
		if refusal := result.Replicas[i].Refusal; refusal != nil && refusal.Code == placement.CodeInsufficientCapacity {
			return true
		}
	}
	return false
}

// start starts the turn of a graph, and ends the turn of a graph with lower priority. If no hosts can be reserved for the graph, its wait
// starts again, and the next graph in line gets its turn.
func (r *domainReserver) start(
	ctx context.Context, dgd *nvidiav1beta1.DynamoGraphDeployment, request *gang.Request, planned *placement.Result, d *decision,
	now time.Time,
) {
	r.lift()
	entry := r.line[d.graph]
	waited := now.Sub(entry.since)
	entry.tooMany = ""
	empty, most, needs := r.hostsWhenEmpty(request, planned, nil)
	if empty == nil {
		if needs > 0 {
			entry.tooMany = fmt.Sprintf("no hosts are reserved for it, because it needs %d and at most %d may be reserved", needs, most)
		}
		r.restore()
		entry.since = now // nodes may be added before its next turn
		d.lookAt(now.Add(r.after))
		if next, ok := r.next(now); ok {
			d.wake.now = append(d.wake.now, next)
		}
		return
	}
	d.wakeWaiting(r.current != nil)
	r.replace(&domainReservation{
		graph: d.graph, priority: request.Graph.Priority, created: dgd.CreationTimestamp.Time, levels: request.Graph.Levels,
		domain: empty.Domain, nodes: empty.Hosts, until: now.Add(r.lasts),
	})
	d.lookAt(r.current.until)
	logger(ctx, dgd).Info("reserved hosts of a domain", "domain", empty.Domain.String(), "hosts", empty.Hosts, "until", r.current.until)
	d.report(EventDomainReserved, "%s reserved until %s for a gang that has been waiting for %s",
		r.current.what(), r.current.until.UTC().Format("15:04 MST"), waited.Round(time.Second))
}

// renew chooses the hosts of the reserved domain again, because other hosts may have become free, and the needs of the graph may have
// changed. It reports whether the reserved hosts have changed.
func (r *domainReserver) renew(request *gang.Request, planned *placement.Result) (changed bool) {
	r.lift()
	if empty, _, _ := r.hostsWhenEmpty(request, planned, r.current.domain); empty != nil && !slices.Equal(empty.Hosts, r.current.nodes) {
		r.current.nodes = empty.Hosts
		changed = true
	}
	r.restore()
	return changed
}

func (r *domainReserver) hostsWhenEmpty(request *gang.Request, planned *placement.Result, in topology.Path) (empty *placement.EmptyHosts,
	most, needs int) {
	g := request.Graph
	most = r.most(r.cluster.Tree(g.Levels, g.NodeSelector).Size(topology.Root))
	empty, needs = placement.WhenEmpty(r.cluster, g, planned, in, most, placement.Options{})
	return empty, most, needs
}

// replace ends the current reservation, if there is one, and starts a new reservation.
func (r *domainReserver) replace(by *domainReservation) {
	r.lift()
	r.current = by
	r.restore()
	domainReserved.Set(1)
}

// restore reserves the nodes of the current turn for the graph of this turn.
func (r *domainReserver) restore() {
	if r.current != nil {
		r.mark(r.current.graph.String())
	}
}

// lift ends the reservation of the nodes until restore reserves them again.
func (r *domainReserver) lift() { r.mark("") }

// mark reserves the nodes of the current turn for a graph; "" lifts the reservation.
func (r *domainReserver) mark(who string) {
	if r.current == nil {
		return
	}
	for _, node := range r.current.nodes {
		r.cluster.ReserveNode(node, who)
	}
}

// liftFor lifts the reservation before the plan of a graph that may use the reserved hosts.
func (r *domainReserver) liftFor(dgd *nvidiav1beta1.DynamoGraphDeployment, request *gang.Request) {
	if r.current != nil && r.current.exempt(dgd, request) {
		r.lift()
	}
}

func (d *domainReservation) exempt(dgd *nvidiav1beta1.DynamoGraphDeployment, r *gang.Request) bool {
	if d.movers[client.ObjectKeyFromObject(dgd)] {
		return false
	}
	older := !d.byMoves() && r.Graph.Priority == d.priority && dgd.CreationTimestamp.Time.Before(d.created)
	if client.ObjectKeyFromObject(dgd) == d.graph || r.Graph.Priority > d.priority || older {
		return true
	}
	if !slices.Equal(r.Graph.Levels, d.levels) || d.byMoves() && len(d.domain) == 0 {
		return false
	}
	return d.holds(r.Graph.Anchor) || slices.ContainsFunc(r.Graph.Components, func(component placement.Component) bool {
		return d.holds(component.Anchor) || slices.ContainsFunc(component.Waiting, func(replica placement.Replica) bool {
			return d.holds(replica.Hint) || d.holds(replica.Anchor)
		})
	})
}

// holds reports whether a path lies in the reserved domain.
func (d *domainReservation) holds(p topology.Path) bool {
	return len(p) >= len(d.domain) && p[:len(d.domain)].Equal(d.domain)
}

// leave removes a graph from the line and ends its turn. It reports whether the graph had the current turn. If so, other graphs may now use
// the hosts.
func (r *domainReserver) leave(name types.NamespacedName, placed bool, now time.Time) bool {
	delete(r.line, name)
	if !r.has(name) {
		return false
	}
	if !placed {
		r.rest(name.Namespace, now)
	}
	r.lift()
	r.current = nil
	domainReserved.Set(0)
	return true
}

// expire ends the current turn when its time is over, and reports whether it ended the turn. The graph joins the line again at its next
// plan.
func (r *domainReserver) expire(now time.Time) bool {
	return r.current != nil && !now.Before(r.current.until) && r.leave(r.current.graph, false, now)
}
