// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/placement"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// EventDomainReserved means that hosts of a domain are reserved for a gang.
const EventDomainReserved = "DomainReserved"

// domainReservation is hosts of one domain that are reserved for a waiting graph: newcomers stay off them, so that a large gang is not starved
// by small ones that take every host as it becomes free. They are hosts that the gang can use, as many as it needs, and at most a share of
// the topology's nodes. What runs there stays and, when it is lost, comes back there. Graphs of a higher priority, and older ones of the
// same, may use them. The turn ends when the gang is placed, or after ReserveDomainFor.
type domainReservation struct {
	graph    types.NamespacedName
	priority int32
	created  time.Time
	levels   topology.Levels
	domain   topology.Path
	nodes    []string
	until    time.Time
}

// reserveDomain starts, renews, reports or ends the domain reservation of a graph that has just been planned. Called with the lock held.
func (s *Scheduler) reserveDomain(
	ctx context.Context, dgd *nvidiav1beta1.DynamoGraphDeployment, r *gang.Request, planned *placement.Result, result *gang.Result,
) {
	name, now := client.ObjectKeyFromObject(dgd), s.options.Clock.Now()
	if s.reserver.after == 0 {
		return
	}
	if !refused(planned) {
		s.leaveLine(name, true)
		return
	}
	entry := s.reserver.join(name, r.Graph.Priority, dgd.CreationTimestamp.Time, now)
	if d := s.reserver.current; d != nil && d.graph == name {
		s.renewDomainReservation(r, planned)
	} else if wait := s.reserver.wait(name, now); wait > 0 {
		s.queue.addAt(name, now.Add(wait))
	} else if next, ok := s.reserver.next(now); ok && next == name {
		s.startDomainReservation(ctx, dgd, r, planned)
	} else if ok {
		s.queue.add(next)
	}
	note := entry.tooMany
	if d := s.reserver.current; d != nil && d.graph == name {
		note = fmt.Sprintf("%s reserved for it until %s", d.what(), d.until.UTC().Format("15:04 MST"))
	}
	for i := range result.Waiting {
		if note != "" && result.Waiting[i].Code == placement.CodeInsufficientCapacity {
			result.Waiting[i].Noted(note)
		}
	}
}

func (d *domainReservation) what() string {
	if len(d.nodes) == 1 {
		return "1 host in " + d.domain.String() + " is"
	}
	return fmt.Sprintf("%d hosts in %s are", len(d.nodes), d.domain)
}

func refused(result *placement.Result) bool {
	for i := range result.Replicas {
		if refusal := result.Replicas[i].Refusal; refusal != nil && refusal.Code == placement.CodeInsufficientCapacity {
			return true
		}
	}
	return false
}

// startDomainReservation gives a graph its turn, which a graph of lower priority may have to end. A graph for which nothing can be reserved waits as
// long again, and the next one in line has its turn.
func (s *Scheduler) startDomainReservation(ctx context.Context, dgd *nvidiav1beta1.DynamoGraphDeployment, r *gang.Request, result *placement.Result) {
	name, now := client.ObjectKeyFromObject(dgd), s.options.Clock.Now()
	s.mark("")
	entry, waited := s.reserver.line[name], now.Sub(s.reserver.line[name].since)
	entry.tooMany = ""
	empty, most, needs := s.hostsWhenEmpty(r, result, nil)
	if empty == nil {
		if needs > 0 {
			entry.tooMany = fmt.Sprintf("no hosts are reserved for it, because it needs %d and at most %d may be reserved", needs, most)
		}
		s.markCurrent()
		entry.since = now // nodes may have come until its next turn
		s.queue.addAt(name, now.Add(s.reserver.after))
		if next, ok := s.reserver.next(now); ok {
			s.queue.add(next)
		}
		return
	}
	if s.reserver.current != nil {
		s.queue.wakeWaiting()
	}
	d := &domainReservation{
		graph: name, priority: r.Graph.Priority, created: dgd.CreationTimestamp.Time, levels: r.Graph.Levels,
		domain: empty.Domain, nodes: empty.Hosts, until: now.Add(s.reserver.lasts),
	}
	s.reserver.current = d
	s.markCurrent()
	domainReserved.Set(1)
	s.queue.addAt(name, d.until)
	logger(ctx, dgd).Info("reserved hosts of a domain", "domain", d.domain.String(), "hosts", d.nodes, "until", d.until)
	s.recorder.Eventf(dgd, nil, corev1.EventTypeNormal, EventDomainReserved, "Place", "%s reserved until %s for a gang that has been waiting for %s",
		d.what(), d.until.UTC().Format("15:04 MST"), waited.Round(time.Second))
}

// renewDomainReservation chooses the hosts of the reserved domain again: some may have become free meanwhile, and the graph may need others.
func (s *Scheduler) renewDomainReservation(r *gang.Request, result *placement.Result) {
	s.mark("")
	if empty, _, _ := s.hostsWhenEmpty(r, result, s.reserver.current.domain); empty != nil && !slices.Equal(empty.Hosts, s.reserver.current.nodes) {
		s.reserver.current.nodes = empty.Hosts
		s.queue.wakeWaiting()
	}
	s.markCurrent()
}

func (s *Scheduler) hostsWhenEmpty(r *gang.Request, result *placement.Result, in topology.Path) (empty *placement.EmptyHosts, most, needs int) {
	most = s.reserver.most(s.cluster.Tree(r.Graph.Levels, r.Graph.NodeSelector).Size(topology.Root))
	empty, needs = placement.WhenEmpty(s.cluster, r.Graph, result, in, most, placement.Options{})
	return empty, most, needs
}

// markCurrent reserves the nodes for the graph that has its turn.
func (s *Scheduler) markCurrent() {
	if s.reserver.current != nil {
		s.mark(s.reserver.current.graph.String())
	}
}

// mark reserves the nodes of the current turn for somebody, or with "" for nobody.
func (s *Scheduler) mark(who string) {
	if s.reserver.current == nil {
		return
	}
	for _, node := range s.reserver.current.nodes {
		s.cluster.ReserveNode(node, who)
	}
}

// liftDomainReservation opens the reserved hosts for the plan of a graph that may use them.
func (s *Scheduler) liftDomainReservation(dgd *nvidiav1beta1.DynamoGraphDeployment, r *gang.Request) {
	if d := s.reserver.current; d != nil && d.exempt(dgd, r) {
		s.mark("")
	}
}

func (d *domainReservation) exempt(dgd *nvidiav1beta1.DynamoGraphDeployment, r *gang.Request) bool {
	older := r.Graph.Priority == d.priority && dgd.CreationTimestamp.Time.Before(d.created)
	if client.ObjectKeyFromObject(dgd) == d.graph || r.Graph.Priority > d.priority || older {
		return true
	}
	inside := func(p topology.Path) bool { return len(p) >= len(d.domain) && p[:len(d.domain)].Equal(d.domain) }
	if !slices.Equal(r.Graph.Levels, d.levels) {
		return false
	}
	if inside(r.Graph.Anchor) {
		return true
	}
	for _, service := range r.Graph.Services {
		if inside(service.Anchor) {
			return true
		}
		for _, replica := range service.Waiting {
			if inside(replica.Hint) || inside(replica.Anchor) {
				return true
			}
		}
	}
	return false
}

// leaveLine takes a graph out of the line and ends its turn, if it has one.
func (s *Scheduler) leaveLine(name types.NamespacedName, placed bool) {
	delete(s.reserver.line, name)
	d := s.reserver.current
	if d == nil || d.graph != name {
		return
	}
	if !placed {
		s.reserver.rest(name.Namespace, s.options.Clock.Now())
	}
	s.mark("")
	s.reserver.current = nil
	domainReserved.Set(0)
	s.queue.wakeWaiting()
}

// expireDomainReservation ends a turn that has lasted its time; the graph joins the line again when it is planned next.
func (s *Scheduler) expireDomainReservation(now time.Time) {
	if d := s.reserver.current; d != nil && !now.Before(d.until) {
		s.leaveLine(d.graph, false)
	}
}
