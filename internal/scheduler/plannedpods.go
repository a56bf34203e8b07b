// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// addPlanned adds planned pods to the pods of a graph: pods that are to be created in place, and pods that another operator may be creating
// at this moment. It ends the reservations of planned pods for which no group asks any more.
func (e *evaluation) addPlanned(o *gang.Observation) {
	ended := e.options.Asks.endedOf(e.d.graph)
	if o.Record == nil || len(e.asks)+len(e.planned)+len(o.Record.Gangs)+len(e.theirs[e.d.graph]) == 0 {
		return
	}
	exist, names, spent := map[gang.Key]bool{}, map[string]bool{}, ended
	for _, pod := range o.Pods {
		e.takeOver(pod)
		key := o.KeyOf(pod)
		if exist[key] = true; !o.Leaves(pod) {
			names[pod.Name] = true
		}
		spent[key] = max(spent[key], render.AttemptOf(pod))
	}
	maps.DeleteFunc(spent, func(key gang.Key, attempt int32) bool { return attempt == 0 || o.Record.GangOf(key) == "" })
	e.spend(e.d.graph, spent)
	e.endPlanned(*o)
	o.Spent, o.Pods = e.spent[e.d.graph], slices.Clip(o.Pods)
	for _, one := range e.asks {
		creating := slices.ContainsFunc(one.pods, e.isCreated)
		if !creating && exist[one.key] {
			continue // its group will see these pods
		}
		if !creating {
			e.d.asked = append(e.d.asked, one)
		}
		for _, pod := range one.pods {
			if !names[pod.Name] && e.isCreated(pod) == creating {
				o.Pods = append(o.Pods, pod)
			}
		}
	}
	e.endPredecessors(o)
	e.awaitOthers(o, false)
}

// addAllPlanned is [evaluation.addPlanned] for callers that do not answer asks. It also covers replicas that have an ask and whose pods
// another operator may be creating.
func (e *evaluation) addAllPlanned(o *gang.Observation) {
	e.addPlanned(o)
	e.awaitOthers(o, true)
}

// spend marks attempts of replicas as spent, so that no replica is created a second time at the same attempt.
func (s *state) spend(graph types.NamespacedName, attempts map[gang.Key]int32) {
	if s.spent[graph] == nil && len(attempts) > 0 {
		s.spent[graph] = map[gang.Key]int32{}
	}
	for key, attempt := range attempts {
		s.spent[graph][key] = max(s.spent[graph][key], attempt)
	}
}

// endPlanned ends the reservations of a graph's planned pods, except for pods that a group asks for and whose reservation is for the
// recorded attempt.
func (e *evaluation) endPlanned(o gang.Observation) {
	wanted := map[*corev1.Pod]bool{}
	for _, one := range e.asks {
		for _, pod := range one.pods {
			wanted[pod] = true
		}
	}
	for id, p := range e.planned {
		if p.graph != e.d.graph {
			continue
		}
		place, assigned := o.Record.Assigned(o.KeyOf(p.pod))
		if p.others || !wanted[p.pod] || !assigned || place.Attempt != e.pods.of(id).attempt {
			e.notCreated(p.pod)
		}
	}
}

// notCreated ends the reservation of a planned pod. If a hold for the pod was given to the plan, the capacity is held again for the rest of
// the hold's time.
func (s *state) notCreated(pod *corev1.Pod) {
	id := topology.PodID(pod)
	node, _ := s.cluster.Reserved(id)
	s.giveBack(id)
	delete(s.planned, id)
	s.resumeHold(client.ObjectKeyFromObject(pod), node)
}

// giveBackRelease ends the reservation of a pod that was not released, or not created.
func (s *state) giveBackRelease(release gang.Release) {
	if gang.Planned(release.Pod) {
		s.notCreated(release.Pod)
	} else {
		s.giveBack(topology.PodID(release.Pod))
	}
}

// beginRelease marks an existing pod as being released, and a planned pod as being created.
func (s *state) beginRelease(release gang.Release, graph types.NamespacedName) {
	s.pods.begin(release, s.clock.Now())
	if gang.Planned(release.Pod) {
		s.planned[topology.PodID(release.Pod)] = plannedPod{pod: release.Pod, graph: graph}
	}
}

// creates reports whether pods of a graph are being created in place and have not been seen yet.
func (s *state) creates(graph types.NamespacedName) bool {
	for _, p := range s.planned {
		if p.graph == graph {
			return true
		}
	}
	return false
}

// noteOwn remembers a pod of a scaling group by name for [evaluation.endPredecessors], if replicas may be created in place.
func (s *state) noteOwn(pod *corev1.Pod) {
	if _, _, owned := render.GroupOf(pod); owned && s.options.Asks != nil {
		s.own[client.ObjectKeyFromObject(pod)] = pod
	}
}

// endPredecessors removes from the ledger the pods that are gone and whose successors are planned. The API cache shows that a pod is gone
// before the ledger gets the deletion event. A gated successor is planned only after its own event, which comes later. A planned successor
// has no event and is planned at once: without endPredecessors it would not get the capacity of its predecessor.
func (e *evaluation) endPredecessors(o *gang.Observation) {
	exist := map[types.UID]bool{}
	for _, pod := range o.Pods {
		exist[pod.UID] = true
	}
	for _, successor := range o.Pods {
		if !gang.Planned(successor) {
			continue
		}
		pod := e.own[client.ObjectKeyFromObject(successor)]
		if pod == nil || exist[pod.UID] {
			continue
		}
		_, former, _ := render.GroupOf(pod)
		if _, group, _ := render.GroupOf(successor); former == group {
			id := topology.PodID(pod)
			e.gone(pod, id)
			delete(e.freer.requests, id)
			e.past[id] = true
		}
	}
}

// takeOver transfers the reservation of a planned pod to the pod that was created for it.
func (s *state) takeOver(pod *corev1.Pod) {
	if len(s.planned) == 0 {
		return
	}
	_, group, owned := render.GroupOf(pod)
	id := string(gang.PlannedUID(group, pod.Name))
	if _, is := s.planned[id]; !is || !owned || s.pods.of(id).attempt != render.AttemptOf(pod) {
		return
	}
	delete(s.planned, id)
	s.pods.forget(id)
	own := topology.PodID(pod)
	if _, bound := s.cluster.Bound(own); bound || gang.Leaving(pod) {
		s.cluster.Forget(id)
		return
	}
	s.cluster.HandOver(id, pod)
	s.pods.change(own, func(r *released) { r.at = s.clock.Now() })
}

// findUncreated adds a gang to the overdue gangs if the gang's planned pods are not created within ten times --requeue-after after their
// placement. Otherwise the planned pods would keep their capacity, and the created pods of the gang would wait for them.
func (e *evaluation) findUncreated(o gang.Observation) {
	now, patience := e.clock.Now(), servedPatience*e.options.RequeueAfter
	for id, p := range e.planned {
		if p.graph != e.d.graph || p.others {
			continue
		}
		due := e.pods.of(id).at.Add(patience)
		if now.Before(due) {
			e.d.lookAt(due)
			continue
		}
		if e.d.overdue == nil {
			e.d.overdue = map[string]bool{}
		}
		e.d.overdue[o.Record.GangOf(o.KeyOf(p.pod))] = true
	}
}

// settleAsks determines the answers to asks. A placed replica gets its attempt once the attempt is recorded. An undecided replica gets its
// answer later. All other replicas are created gated.
func (e *evaluation) settleAsks() {
	if len(e.d.evicted) > 0 {
		return
	}
	for _, one := range e.d.asked {
		if !e.isCreated(one.pods[0]) && !e.d.undecided[one.key] {
			e.d.gated = append(e.d.gated, one.pods[0])
		}
	}
}
