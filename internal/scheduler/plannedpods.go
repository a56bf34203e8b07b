// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/assignment"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// createWithin is the time for which the pods of a gang may be created by another operator, after that has recorded the gang, and in which
// the scaling groups ask for what an earlier leader has recorded.
const createWithin = 10 * time.Second

// addPlanned adds to the pods of a graph those that are to be created in place, and those that another operator may be creating at this
// moment. It ends the reservations of planned pods that nobody asks for any more.
func (e *evaluation) addPlanned(o *gang.Observation) {
	asks, ended := e.options.Asks.ofGraph(e.d.graph)
	if o.Record == nil || len(asks)+len(e.planned)+len(o.Record.Gangs) == 0 {
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
	e.endPlanned(*o, asks)
	o.Spent, o.Pods = e.spent[e.d.graph], slices.Clip(o.Pods)
	for _, one := range asks {
		creating := slices.ContainsFunc(one.pods, e.isCreated)
		if !creating && exist[one.key] {
			continue // its group will see that
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

// addAllPlanned is addPlanned where nothing is decided about asked replicas.
func (e *evaluation) addAllPlanned(o *gang.Observation) {
	e.addPlanned(o)
	e.awaitOthers(o, true)
}

// isCreated reports whether a planned pod has a recorded place, or is given one.
func (s *state) isCreated(pod *corev1.Pod) bool { return s.planned[topology.PodID(pod)].pod != nil }

// spend notes attempts that were carried out.
func (s *state) spend(graph types.NamespacedName, attempts map[gang.Key]int32) {
	if s.spent[graph] == nil && len(attempts) > 0 {
		s.spent[graph] = map[gang.Key]int32{}
	}
	for key, attempt := range attempts {
		s.spent[graph][key] = max(s.spent[graph][key], attempt)
	}
}

// endPlanned ends the planned pods of a graph, except for those that are asked for and whose recorded place is that of their reservation.
func (e *evaluation) endPlanned(o gang.Observation, asks []asked) {
	for id, p := range e.planned {
		if p.graph != e.d.graph {
			continue
		}
		stays := !p.others && slices.ContainsFunc(asks, func(one asked) bool { return slices.Contains(one.pods, p.pod) })
		if place, assigned := o.Record.Assigned(o.KeyOf(p.pod)); !stays || !assigned || place.Attempt != e.pods.of(id).attempt {
			e.notCreated(p.pod)
		}
	}
}

// notCreated ends the reservation of a planned pod. The capacity of its predecessor is held for the rest of its time.
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

// beginRelease notes that a pod is being released, or created.
func (s *state) beginRelease(release gang.Release, graph types.NamespacedName) {
	s.pods.begin(release, s.clock.Now())
	if gang.Planned(release.Pod) {
		s.planned[topology.PodID(release.Pod)] = plannedPod{pod: release.Pod, graph: graph}
	}
}

// creates reports whether pods of a graph are being created in place that were not seen yet.
func (s *state) creates(graph types.NamespacedName) bool {
	for _, p := range s.planned {
		if p.graph == graph {
			return true
		}
	}
	return false
}

// awaitOthers adds the replicas without pods of gangs that another operator has recorded just now: it may create their pods at this moment.
// They keep the domain of their graph and component, and their hosts, and are not placed again meanwhile. Pods of earlier attempts are
// deleted, and those that follow them may be created as well. Asked replicas are added when they are not created as recorded.
func (e *evaluation) awaitOthers(o *gang.Observation, asked bool) {
	if o.Record == nil {
		return
	}
	theirs := e.recordedByOthers(o)
	if len(theirs) == 0 {
		return
	}
	planned := map[gang.Key][]*corev1.Pod{}
	for _, pod := range o.Pods {
		if gang.Planned(pod) {
			planned[o.KeyOf(pod)] = append(planned[o.KeyOf(pod)], pod)
		}
	}
	maps.DeleteFunc(theirs, func(key gang.Key, _ othersPlace) bool {
		return len(planned[key]) > 0 && (!asked || e.isCreated(planned[key][0]))
	})
	e.holdForOthers(*o, theirs)
	for key, place := range theirs {
		pods, is := planned[key]
		if !is {
			pods = o.PlannedReplica(key)
			o.Pods = append(o.Pods, pods...)
		}
		for _, pod := range pods {
			id := topology.PodID(pod)
			e.planned[id] = plannedPod{pod: pod, graph: e.d.graph, others: true}
			e.pods.change(id, func(r *released) { r.releasing, r.domain, r.attempt = true, place.Domain, place.Attempt })
		}
		e.d.lookAt(place.until)
	}
}

// othersPlace is where another operator may be creating a replica, and until when.
type othersPlace struct {
	assignment.Place
	until time.Time
}

// recordedByOthers returns the replicas without pods that another operator has recorded in a gang just now.
func (e *evaluation) recordedByOthers(o *gang.Observation) map[gang.Key]othersPlace {
	theirs, now := map[gang.Key]othersPlace{}, e.clock.Now()
	for _, g := range o.Record.Gangs {
		left := createWithin - min(now.Sub(g.Since), now.Sub(e.started))
		if g.State != trellisv1alpha1.GangAssigned || left <= 0 {
			continue
		}
		for key, place := range g.Places {
			hosts := slices.ContainsFunc(place.Hosts, func(host string) bool { return host != "" })
			if hosts && o.Spent[key] < place.Attempt {
				theirs[key] = othersPlace{place, now.Add(left)}
			}
		}
	}
	if len(theirs) > 0 {
		for _, pod := range o.Pods {
			if !gang.Planned(pod) && !o.Leaves(pod) {
				delete(theirs, o.KeyOf(pod))
			}
		}
	}
	return theirs
}

// holdForOthers holds the recorded hosts of missing pods until the times of their replicas: another graph would get them otherwise.
func (e *evaluation) holdForOthers(o gang.Observation, theirs map[gang.Key]othersPlace) {
	for _, one := range gang.RecordedPods(o) {
		_, held := e.holds.byPod[one.Name]
		if place, is := theirs[one.Replica]; is && !held && one.UID == "" {
			e.holdRecordedPod(e.d.graph, one, place.until)
			e.wakeLoop() // it sets its timer by the holds
		}
	}
}

// noteOwn remembers a pod by its name, where a successor of it may be created in place.
func (s *state) noteOwn(pod *corev1.Pod) {
	if _, _, owned := render.GroupOf(pod); owned && s.options.Asks != nil {
		s.own[client.ObjectKeyFromObject(pod)] = pod
	}
}

// endPredecessors takes in that the pods are gone whose successors are to be created. The API cache shows that before the ledger is told:
// a gated successor is told after it, one that does not exist yet is planned at once. Without it a replica would not be given the capacity
// of its predecessor.
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

// takeOver gives a pod that was created in place the reservation that was made for it.
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

// settleAsks determines which asks are answered: placed replicas by their recorded attempts, when they are recorded, and undecided ones
// later. All others are created gated.
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
