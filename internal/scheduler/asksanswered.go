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

// forgetGraph forgets a graph that is gone.
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

// refusedOf returns the assigned gangs of a graph with pods that could not be created, and forgets all others.
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

// evicts reports whether the eviction of a gang of a graph is recorded, or a gang has pods that could not be created.
func (a *Asks) evicts(o gang.Observation) bool {
	return o.Record != nil && (o.Record.Evicts() || len(a.refusedOf(client.ObjectKeyFromObject(o.DGD), o.Record)) > 0)
}

// newlyRefused returns, once, the gangs of a graph that were refused, in order.
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

// addPriorities adds the priorities of planned pods to those of graphs: a graph has that of its most important pod.
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

// asked is one ask, for the loop.
type asked struct {
	key  gang.Key
	pods []*corev1.Pod
}

// endedOf returns, once, the attempts of replicas of a graph that were deleted.
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

// ofGraph returns the asks of a graph that are not created gated, in order. They are read before the pods of the graph: an ask ends when
// its pods appear, and without the ask and the pods a replica would lose its place.
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

// answer answers the asks of a graph: attempts of recorded places, and the replicas that are created gated, by their first planned pods. An
// ask that has ended since has no answer.
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
