// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/assignment"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// createWithin is how long another operator may still create pods in a recorded place, after this operator has first read the place. The
// time is also long enough for the scaling groups to ask for the replicas that an earlier leader has recorded.
const createWithin = 10 * time.Second

// awaitOthers adds planned pods to an observation, for replicas without pods that another operator has just recorded. That operator may be
// creating these pods. Capacity for the planned pods is held on their recorded hosts. They anchor the domains of their graph and component,
// and are not placed again. Pods of earlier attempts do not count as pods of a replica: they are deleted, and the other operator may be
// creating their successors. If asked is true, awaitOthers also covers replicas for which a group of this operator asks, unless their pods
// are already being created.
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

// othersPlace is a place in which another operator may be creating a replica. until is the time at which this operator stops waiting for
// the pods.
type othersPlace struct {
	assignment.Place
	until time.Time
}

// recordedByOthers returns the places that another operator has recorded just now for replicas without pods.
func (e *evaluation) recordedByOthers(o *gang.Observation) map[gang.Key]othersPlace {
	theirs, now := map[gang.Key]othersPlace{}, e.clock.Now()
	was, known := e.theirs[e.d.graph], map[gang.Key]knownPlace{}
	for _, g := range o.Record.Gangs {
		if g.State != trellisv1alpha1.GangAssigned {
			continue
		}
		for key, place := range g.Places {
			hosts := slices.ContainsFunc(place.Hosts, func(host string) bool { return host != "" })
			if !hosts || o.Spent[key] >= place.Attempt {
				continue
			}
			if known[key] = was[key]; was[key].attempt != place.Attempt {
				known[key] = knownPlace{place.Attempt, now}
			}
			if until := known[key].since.Add(createWithin); now.Before(until) {
				theirs[key] = othersPlace{place, until}
			}
		}
	}
	if e.theirs[e.d.graph] = known; len(known) == 0 {
		delete(e.theirs, e.d.graph)
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

// holdForOthers holds the recorded hosts of missing pods, so that no other graph gets these hosts. Each hold ends when the operator stops
// waiting for the replica.
func (e *evaluation) holdForOthers(o gang.Observation, theirs map[gang.Key]othersPlace) {
	for _, one := range gang.RecordedPods(o) {
		_, held := e.holds.byPod[one.Name]
		if place, is := theirs[one.Replica]; is && !held && one.UID == "" {
			e.holdRecordedPod(e.d.graph, one, place.until)
			e.wakeLoop() // the loop sets its timer by the holds
		}
	}
}

// isCreated reports whether a planned pod is being created, either in its recorded place or in a place from the current decision.
func (s *state) isCreated(pod *corev1.Pod) bool { return s.planned[topology.PodID(pod)].pod != nil }
