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

// EventDomainKept means that hosts of a domain are kept free of newcomers for a gang.
const EventDomainKept = "DomainKept"

// keptHosts are hosts of one domain that are kept free of newcomers, so that a large gang is not starved by small ones that take every host as
// it becomes free. They are hosts that the gang can use, as many as it needs, and at most a share of the topology's nodes. What runs there
// stays and, when it is lost, comes back there. Graphs of a higher priority, and older ones of the same, may use them. The turn ends when the
// gang is placed, or after KeepFor.
type keptHosts struct {
	graph    types.NamespacedName
	priority int32
	created  time.Time
	levels   topology.Levels
	domain   topology.Path
	nodes    []string
	until    time.Time
}

// keep starts, reports or ends the keeping of hosts for a graph that has just been planned. Called with the lock held.
func (s *Scheduler) keep(ctx context.Context, dgd *nvidiav1beta1.DynamoGraphDeployment, r *gang.Request, planned *placement.Result, result *gang.Result) {
	name, now := client.ObjectKeyFromObject(dgd), s.options.Clock.Now()
	if s.keeper.after == 0 {
		return
	}
	if !refused(planned) {
		s.leaveLine(name, true)
		return
	}
	entry := s.keeper.join(name, r.Graph.Priority, dgd.CreationTimestamp.Time, now)
	if k := s.keeper.current; k != nil && k.graph == name {
		s.renewKept(r, planned)
	} else if wait := s.keeper.wait(name, now); wait > 0 {
		s.queue.addAt(name, now.Add(wait))
	} else if next, ok := s.keeper.next(now); ok && next == name {
		s.startKeeping(ctx, dgd, r, planned)
	} else if ok {
		s.queue.add(next)
	}
	note := entry.tooMany
	if k := s.keeper.current; k != nil && k.graph == name {
		note = fmt.Sprintf("%s kept free of newcomers for it until %s", k.what(), k.until.UTC().Format("15:04 MST"))
	}
	for i := range result.Waiting {
		if note != "" && result.Waiting[i].Code == placement.CodeInsufficientCapacity {
			result.Waiting[i].Message += "; " + note
		}
	}
}

func (k *keptHosts) what() string {
	if len(k.nodes) == 1 {
		return "1 host in " + k.domain.String() + " is"
	}
	return fmt.Sprintf("%d hosts in %s are", len(k.nodes), k.domain)
}

func refused(result *placement.Result) bool {
	for i := range result.Replicas {
		if refusal := result.Replicas[i].Refusal; refusal != nil && refusal.Code == placement.CodeInsufficientCapacity {
			return true
		}
	}
	return false
}

// startKeeping gives a graph its turn, which a graph of lower priority may have to end. A graph for which nothing can be kept waits as long
// again, and the next one in line has its turn.
func (s *Scheduler) startKeeping(ctx context.Context, dgd *nvidiav1beta1.DynamoGraphDeployment, r *gang.Request, result *placement.Result) {
	name, now := client.ObjectKeyFromObject(dgd), s.options.Clock.Now()
	s.mark("")
	entry, waited := s.keeper.line[name], now.Sub(s.keeper.line[name].since)
	entry.tooMany = ""
	empty, most, needs := s.hostsWhenEmpty(r, result, nil)
	if empty == nil {
		if needs > 0 {
			entry.tooMany = fmt.Sprintf("no hosts are kept for it, because it needs %d and at most %d may be kept", needs, most)
		}
		s.markCurrent()
		entry.since = now // nodes may have come until its next turn
		s.queue.addAt(name, now.Add(s.keeper.after))
		if next, ok := s.keeper.next(now); ok {
			s.queue.add(next)
		}
		return
	}
	if s.keeper.current != nil {
		s.queue.wakeWaiting()
	}
	k := &keptHosts{
		graph: name, priority: r.Graph.Priority, created: dgd.CreationTimestamp.Time, levels: r.Graph.Levels,
		domain: empty.Domain, nodes: empty.Hosts, until: now.Add(s.keeper.lasts),
	}
	s.keeper.current = k
	s.markCurrent()
	domainKept.Set(1)
	s.queue.addAt(name, k.until)
	logger(ctx, dgd).Info("keeping hosts free of newcomers", "domain", k.domain.String(), "hosts", k.nodes, "until", k.until)
	s.recorder.Eventf(dgd, nil, corev1.EventTypeNormal, EventDomainKept, "Place", "%s kept free of newcomers until %s for a gang that has been waiting for %s",
		k.what(), k.until.UTC().Format("15:04 MST"), waited.Round(time.Second))
}

// renewKept chooses the hosts of the kept domain again: some may have become free meanwhile, and the graph may need others.
func (s *Scheduler) renewKept(r *gang.Request, result *placement.Result) {
	s.mark("")
	if empty, _, _ := s.hostsWhenEmpty(r, result, s.keeper.current.domain); empty != nil && !slices.Equal(empty.Hosts, s.keeper.current.nodes) {
		s.keeper.current.nodes = empty.Hosts
		s.queue.wakeWaiting()
	}
	s.markCurrent()
}

func (s *Scheduler) hostsWhenEmpty(r *gang.Request, result *placement.Result, in topology.Path) (empty *placement.EmptyHosts, most, needs int) {
	most = s.keeper.most(s.cluster.Tree(r.Graph.Levels, r.Graph.NodeSelector).Size(topology.Root))
	empty, needs = placement.WhenEmpty(s.cluster, r.Graph, result, in, most, placement.Options{})
	return empty, most, needs
}

// markCurrent keeps the nodes for the graph that has its turn.
func (s *Scheduler) markCurrent() {
	if s.keeper.current != nil {
		s.mark(s.keeper.current.graph.String())
	}
}

// mark keeps the nodes of the current turn for somebody, or with "" for nobody.
func (s *Scheduler) mark(who string) {
	if s.keeper.current == nil {
		return
	}
	for _, node := range s.keeper.current.nodes {
		s.cluster.KeepFor(node, who)
	}
}

// liftKept opens the kept hosts for the plan of a graph that may use them.
func (s *Scheduler) liftKept(dgd *nvidiav1beta1.DynamoGraphDeployment, r *gang.Request) {
	if k := s.keeper.current; k != nil && k.exempt(dgd, r) {
		s.mark("")
	}
}

func (k *keptHosts) exempt(dgd *nvidiav1beta1.DynamoGraphDeployment, r *gang.Request) bool {
	older := r.Graph.Priority == k.priority && dgd.CreationTimestamp.Time.Before(k.created)
	if client.ObjectKeyFromObject(dgd) == k.graph || r.Graph.Priority > k.priority || older {
		return true
	}
	inside := func(p topology.Path) bool { return len(p) >= len(k.domain) && p[:len(k.domain)].Equal(k.domain) }
	if !slices.Equal(r.Graph.Levels, k.levels) {
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
	delete(s.keeper.line, name)
	k := s.keeper.current
	if k == nil || k.graph != name {
		return
	}
	if !placed {
		s.keeper.rest(name.Namespace, s.options.Clock.Now())
	}
	s.mark("")
	s.keeper.current = nil
	domainKept.Set(0)
	s.queue.wakeWaiting()
}

// expireKept ends a turn that has lasted its time; the graph joins the line again when it is planned next.
func (s *Scheduler) expireKept(now time.Time) {
	if k := s.keeper.current; k != nil && !now.Before(k.until) {
		s.leaveLine(k.graph, false)
	}
}
