// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/assignment"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// This file is the loop's side of Asks.

// forgetGraph drops the refused gangs, gated replicas and ended attempts of a graph that is gone.
func (a *Asks) forgetGraph(graph types.NamespacedName) {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.refused, graph)
	delete(a.gated, graph)
	delete(a.ended, graph)
}

// refusedOf returns the refused gangs of a graph that are assigned in its record, sorted, and forgets its other refused gangs.
func (a *Asks) refusedOf(graph types.NamespacedName, r *assignment.Record) (gangs []string) {
	if a == nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	maps.DeleteFunc(a.refused[graph], func(name string, _ bool) bool { return r.Gangs[name].State != trellisv1alpha1.GangAssigned })
	if len(a.refused[graph]) == 0 {
		delete(a.refused, graph)
	}
	return slices.Sorted(maps.Keys(a.refused[graph]))
}

// evicts reports whether the record of a graph has evictions, or a gang of the graph is refused.
func (a *Asks) evicts(o gang.Observation) bool {
	return o.Record != nil && (o.Record.Evicts() || len(a.refusedOf(client.ObjectKeyFromObject(o.DGD), o.Record)) > 0)
}

// newlyRefused returns the refused gangs of a graph that no earlier call has returned, sorted.
func (a *Asks) newlyRefused(graph types.NamespacedName) (gangs []string) {
	if a == nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for name, announced := range a.refused[graph] {
		if !announced {
			a.refused[graph][name] = true
			gangs = append(gangs, name)
		}
	}
	slices.Sort(gangs)
	return gangs
}

// addPriorities raises the priorities of graphs to the priorities of their planned pods: a graph has the priority of its most important
// pod.
func (a *Asks) addPriorities(to map[types.UID]int32, graphs []*nvidiav1beta1.DynamoGraphDeployment) {
	if a == nil {
		return
	}
	byName := map[types.NamespacedName]types.UID{}
	for _, dgd := range graphs {
		byName[client.ObjectKeyFromObject(dgd)] = dgd.UID
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, of := range a.groups {
		uid, is := byName[of.graph]
		for _, one := range of.byOrdinal {
			for _, pod := range one.pods {
				if p, has := to[uid]; is && (!has || topology.PriorityOf(pod) > p) {
					to[uid] = topology.PriorityOf(pod)
				}
			}
		}
	}
}

// asked is an ask as the loop reads it.
type asked struct {
	key  gang.Key
	pods []*corev1.Pod
}

// endedOf returns the attempts of replicas of a graph whose pods were deleted, and forgets these attempts.
func (a *Asks) endedOf(graph types.NamespacedName) map[gang.Key]int32 {
	if a == nil {
		return map[gang.Key]int32{}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	ended := a.ended[graph]
	if ended == nil {
		ended = map[gang.Key]int32{}
	}
	delete(a.ended, graph)
	return ended
}

// ofGraph returns the asks of a graph, sorted, without replicas that are created gated. Call it before reading the pods of the graph: an
// ask ends when the pods of its replica appear, and a replica with neither ask nor pods would lose its place.
func (a *Asks) ofGraph(graph types.NamespacedName) (out []asked) {
	if a == nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, of := range a.groups {
		if of.graph != graph {
			continue
		}
		for ordinal, one := range of.byOrdinal {
			if !one.gated {
				out = append(out, asked{of.key(ordinal), one.pods})
			}
		}
	}
	slices.SortFunc(out, func(a, b asked) int { return a.key.Compare(b.key) })
	return out
}

// answer answers the asks of a graph, which it finds by their first planned pods. attempts has the attempts of recorded places. gated has
// the pods whose replicas are to be created gated. answer ignores pods whose ask has ended.
func (a *Asks) answer(graph types.NamespacedName, attempts map[*corev1.Pod]int32, gated []*corev1.Pod) {
	if a == nil || len(attempts)+len(gated) == 0 {
		return
	}
	a.mu.Lock()
	var tell []types.NamespacedName
	for name, of := range a.groups {
		for _, one := range of.byOrdinal {
			attempt := attempts[one.pods[0]]
			if of.graph != graph || attempt == 0 && !slices.Contains(gated, one.pods[0]) {
				continue
			}
			one.attempt, one.gated, one.begun = attempt, attempt == 0, false
			tell = append(tell, name)
		}
	}
	a.mu.Unlock()
	a.tellAll(tell)
}
