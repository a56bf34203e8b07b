// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1 "k8s.io/api/core/v1"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/placement"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// EventDomainKept tells that a domain is kept free of newcomers for a gang.
const EventDomainKept = "DomainKept"

// keptDomain is kept free of newcomers, so that a large gang is not starved by small ones that take every host as it becomes free. What
// runs there stays and, when it is lost, comes back there. There is at most one at a time in the cluster: for the first graph that has
// waited for KeepAfter, one domain that would hold its gang if it were empty. Graphs of a higher priority, and older ones of the same, do
// not heed it. It ends when the gang has its place, or after KeepFor; then the graph queues up again.
type keptDomain struct {
	graph    types.NamespacedName
	priority int32
	created  time.Time
	levels   topology.Levels
	path     topology.Path
	nodes    []string
	until    time.Time
}

func (k *keptDomain) who() string { return k.graph.String() }

// keep starts, tells or ends the keeping of a domain for a graph that has just been planned. Called with the lock held.
func (s *Scheduler) keep(ctx context.Context, dgd *nvidiav1alpha1.DynamoGraphDeployment, v *view, result *placement.Result, verdict *Verdict) {
	name := client.ObjectKeyFromObject(dgd)
	if !refused(result) {
		delete(s.waitingSince, name)
		s.stopKeeping(name)
		return
	}
	now := s.options.Clock.Now()
	since, known := s.waitingSince[name]
	if !known {
		since = now
		s.waitingSince[name] = now
	}
	if s.keeping == nil && s.options.KeepAfter >= 0 {
		if wait := s.options.KeepAfter - now.Sub(since); wait > 0 {
			s.queue.addAt(name, now.Add(wait))
		} else {
			s.startKeeping(ctx, dgd, v, result)
		}
	}
	if k := s.keeping; k != nil && k.graph == name {
		for i := range verdict.Waiting {
			if verdict.Waiting[i].Code == placement.CodeInsufficientCapacity {
				verdict.Waiting[i].Message += fmt.Sprintf("; %s is kept free of newcomers for it until %s", k.path, k.until.UTC().Format("15:04 MST"))
			}
		}
	}
}

func refused(result *placement.Result) bool {
	for i := range result.Replicas {
		if r := result.Replicas[i].Refusal; r != nil && r.Code == placement.CodeInsufficientCapacity {
			return true
		}
	}
	return false
}

func (s *Scheduler) startKeeping(ctx context.Context, dgd *nvidiav1alpha1.DynamoGraphDeployment, v *view, result *placement.Result) {
	name, now := client.ObjectKeyFromObject(dgd), s.options.Clock.Now()
	path, ok := placement.WhenEmpty(s.cluster, v.graph, result, placement.Options{})
	if !ok {
		s.waitingSince[name] = now // ask again later: nodes may have come
		return
	}
	k := &keptDomain{
		graph: name, priority: v.graph.Priority, created: dgd.CreationTimestamp.Time, levels: v.graph.Levels, path: path, until: now.Add(s.options.KeepFor),
	}
	tree := s.cluster.Tree(v.graph.Levels, v.graph.NodeSelector)
	if d, found := tree.Find(path); found {
		tree.AllNodes(d, func(n topology.NodeID) bool {
			k.nodes = append(k.nodes, s.cluster.NodeName(n))
			return true
		})
	}
	s.keeping = k
	s.mark(k.who())
	domainKept.Set(1)
	s.queue.addAt(name, k.until)
	logger(ctx, dgd).Info("keeping a domain free of newcomers", "domain", path.String(), "hosts", len(k.nodes), "until", k.until)
	s.recorder.Eventf(dgd, nil, corev1.EventTypeNormal, EventDomainKept, "Place", "%s is kept free of newcomers until %s for a gang that has been waiting for %s",
		path, k.until.UTC().Format("15:04 MST"), now.Sub(s.waitingSince[name]).Round(time.Second))
}

// mark keeps the domain's nodes for somebody, or with "" for nobody.
func (s *Scheduler) mark(who string) {
	for _, node := range s.keeping.nodes {
		s.cluster.KeepFor(node, who)
	}
}

// liftKept opens the kept domain for the plan of a graph that need not heed it.
func (s *Scheduler) liftKept(dgd *nvidiav1alpha1.DynamoGraphDeployment, v *view) bool {
	k := s.keeping
	if k == nil || !k.exempt(dgd, v) {
		return false
	}
	s.mark("")
	return true
}

func (k *keptDomain) exempt(dgd *nvidiav1alpha1.DynamoGraphDeployment, v *view) bool {
	older := v.graph.Priority == k.priority && dgd.CreationTimestamp.Time.Before(k.created)
	if client.ObjectKeyFromObject(dgd) == k.graph || v.graph.Priority > k.priority || older {
		return true
	}
	inside := func(p topology.Path) bool { return len(p) >= len(k.path) && p[:len(k.path)].Equal(k.path) }
	if !equalLevels(v.graph.Levels, k.levels) {
		return false
	}
	if inside(v.graph.Anchor) {
		return true
	}
	for _, service := range v.graph.Services {
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

func equalLevels(a, b topology.Levels) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// stopKeeping ends the keeping for a graph that needs it no more.
func (s *Scheduler) stopKeeping(name types.NamespacedName) {
	if s.keeping == nil || s.keeping.graph != name {
		return
	}
	s.mark("")
	s.keeping = nil
	domainKept.Set(0)
	s.queue.wakeWaiting()
}

// expireKept ends a keeping that has lasted its time; the graph queues up for the next one.
func (s *Scheduler) expireKept(now time.Time) bool {
	if s.keeping == nil || now.Before(s.keeping.until) {
		return false
	}
	s.waitingSince[s.keeping.graph] = now
	s.stopKeeping(s.keeping.graph)
	return true
}
