// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// This file has the methods with which the loop, the writers and the metrics query the ledger.

// maxFreed is the maximum number of changed nodes that are compared with the requests of the waiting graphs. If more nodes have changed,
// all waiting graphs are planned again.
const maxFreed = 32

// decideNow reads a graph and makes the decision about it, both under the lock. The API cache sees every event before the cluster cache
// does. So objects that are read while the cluster cache does not change are not older than the cluster cache. In older lists, pods would
// look waiting or unbound although the cluster cache already counts them on a node, and they would get capacity a second time.
//
// again: this operator has made a decision about the graph before. decided receives the decision under the same lock, so that the cluster
// cache does not change in between.
func (l *ledger) decideNow(
	ctx context.Context, graph types.NamespacedName, observe func() (gang.Observation, error), again bool, decided func(*decision),
) (gang.Observation, decision, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.evaluate(graph)
	o, err := observe()
	if err != nil {
		return o, decision{}, err
	}
	e.decide(ctx, o)
	d := e.d
	if len(d.evicted) == 0 {
		e.trackParted(o)
		d.result.Score, d.result.Cliques = gang.Score(l.cluster, e.scored(o)), gang.CliquesOf(l.cluster, o)
		d.result.Transfer = gang.TransferOf(o.Groups, o.Pods, l.cluster.NodeLabels)
		d.result.Places = gang.PlacesOf(l.cluster, o)
		d.result.Outside = gang.FindOutside(l.cluster, o, d.result.Domain)
		e.noteUncounted(o)
		e.followWaits(o, again)
	}
	decided(d)
	return o, *d, nil
}

// continued returns the gangs whose eviction continues, by name, and the observation of the graph that shows these evictions. Without
// evictions it returns o, and does not read the graph again.
func (l *ledger) continued(o gang.Observation, observe func() (gang.Observation, error)) (gang.Observation, map[string]eviction, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.options.Asks.evicts(o) {
		return o, nil, nil
	}
	e := l.evaluate(client.ObjectKeyFromObject(o.DGD))
	now, err := observe()
	if err != nil || !l.options.Asks.evicts(now) {
		return now, nil, err
	}
	return now, e.stillEvicted(now), nil
}

// stuckGangs returns the gangs of a graph with a pod that has been stuck for too long, by name, and why they are evicted
// (docs/providers.md#when-a-gang-is-not-bound). Until an eviction is due, each call schedules the next evaluation again, because the queue
// keeps only the earliest time for each graph.
func (l *ledger) stuckGangs(o gang.Observation) (gangs map[string]eviction, w wake) {
	l.mu.Lock()
	defer l.mu.Unlock()
	gangs, name, now := map[string]eviction{}, client.ObjectKeyFromObject(o.DGD), l.clock.Now()
	base, baseDue := gang.BaseGang(o), time.Time{}
	for _, pod := range o.Pods {
		if gang.Leaving(pod) {
			continue // it may terminate late, while other pods of the graph wait
		}
		due, e := l.requeueAt(o, pod, now)
		switch {
		case e.why == "":
		case now.Before(due): // the victims may leave earlier
			w.at(name, earlier(due, now.Add(l.options.RequeueAfter)))
		default:
			of := pod.Annotations[render.AnnotationGang]
			if gangs[of] = e; of == base {
				baseDue = due
			}
			if e.reason == ReasonVictimsStayed {
				node, _ := l.victimsOf(pod)
				l.avoided.add(name, gang.Of(pod), node)
			}
		}
	}
	if now.Before(baseDue.Add(l.options.RequeueAfter)) && l.releases(o) { // gangs that are being released are evicted with the base gang
		w.at(name, now.Add(time.Second))
		return nil, w
	}
	return gangs, w
}

// keepTrees drops the topology trees that are not in use. The memory of a tree grows with the number of nodes, and every node change
// updates all trees. keepTrees calls inUse under the lock, so that it drops no tree that is created in the meantime.
func (l *ledger) keepTrees(inUse func() (func(topology.Levels, map[string]string) bool, error)) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	keep, err := inUse()
	if err == nil {
		l.cluster.KeepTrees(keep)
	}
	return err
}

// eachFreed calls the function tell for each node on which capacity has become free since the last call, according to the cluster cache.
// mayUse reports whether a waiting graph may be placed after the change of the node. If there are too many nodes to compare, eachFreed
// returns false and does not call tell.
func (l *ledger) eachFreed(tell func(node string, mayUse func(types.NamespacedName, waiting) bool)) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	freed, holders := l.cluster.Freed(), l.holds.graphs()
	if len(freed) > maxFreed {
		return false
	}
	for _, node := range freed {
		tell(node, func(name types.NamespacedName, w waiting) bool {
			return w.mayUse(l.cluster, holders[name] || l.reserver.current != nil, node)
		})
	}
	return true
}

// mayUseAny reports whether a waiting graph may be placed after a change of one of the nodes.
func (l *ledger) mayUseAny(name types.NamespacedName, w waiting, nodes []string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	holds := l.holds.has(name)
	return slices.ContainsFunc(nodes, func(node string) bool { return w.mayUse(l.cluster, holds || l.reserver.current != nil, node) })
}

// waitsByReason counts the waiting gangs by reason. first is, for each graph, the start of its longest wait, without waits for admission;
// it is now if all waits of the graph are for admission.
func (l *ledger) waitsByReason(now time.Time) (counts map[string]int, first map[types.NamespacedName]time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	counts, first = map[string]int{}, map[types.NamespacedName]time.Time{}
	for name, gangs := range l.waits {
		since := now
		for _, one := range gangs {
			counts[one.reason]++
			if one.reason != gang.CodeWaitingForAdmission {
				since = earlier(since, one.since)
			}
		}
		first[name] = since
	}
	return counts, first
}

// placesLeftOut counts the places that are currently excluded from plans because a scheduler refused a gang there.
func (l *ledger) placesLeftOut(now time.Time) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.refused.places.leftOut(now)
}

// capacityOf counts one resource by level. Planning waits while capacityOf holds the lock, so each call counts only one resource.
func (l *ledger) capacityOf(resource string, topologies []grovev1alpha1.ClusterTopology) topology.CapacityByLevel {
	l.mu.Lock()
	defer l.mu.Unlock()
	var trees []*topology.Tree
	for i := range topologies {
		if topologies[i].DeletionTimestamp == nil {
			trees = append(trees, l.cluster.Tree(gang.LevelsOfClusterTopology(&topologies[i]), topologies[i].Spec.NodeSelector))
		}
	}
	return l.cluster.CapacityByLevel(resource, trees...)
}

// hostsOf returns the planned hosts of pods, sorted.
func (l *ledger) hostsOf(pods []gang.Release) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var hosts []string
	for _, r := range pods {
		if host, reserved := l.cluster.Reserved(topology.PodID(r.Pod)); reserved {
			hosts = append(hosts, host)
		}
	}
	slices.Sort(hosts)
	return slices.Compact(hosts)
}

// hostsFor lists hosts with room for a pod of a shape, by the value of their label kubernetes.io/hostname. It returns at most the given
// number of hosts, the first ones by node name.
func (l *ledger) hostsFor(shape *topology.Shape, most int) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var hosts []string
	for _, name := range l.cluster.NodeNames() {
		host := l.cluster.NodeLabels(name)[corev1.LabelHostname]
		if _, closed := l.cluster.Why(name, shape); !closed && host != "" && len(hosts) < most {
			hosts = append(hosts, host)
		}
	}
	return hosts
}
