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

// This file has the methods of Asks that the loop calls.

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

// refusedOf returns the names of the refused gangs that are assigned according to the graph's record, sorted. It forgets the graph's other
// refused gangs.
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

// addPriorities raises the priority of each graph to the highest priority of the graph's planned pods.
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

// asked is the part of an ask that the loop reads.
type asked struct {
	key  gang.Key
	pods []*corev1.Pod
}

// endedOf returns, by replica, the highest attempt of a graph's deleted pods, and forgets these attempts.
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

// ofGraph returns the asks of a graph, sorted. It omits asks for replicas that are created gated. Call ofGraph before you read the pods of
// the graph. An ask ends when the pods of its replica appear. In the reverse order, a replica could seem to have neither an ask nor pods,
// and would lose its place.
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

// answer answers asks of a graph. attempts maps planned pods to the attempts of their recorded places. gated has the first planned pod of
// each replica that must be created gated. answer finds an ask by its first planned pod, and ignores pods whose ask has ended.
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
