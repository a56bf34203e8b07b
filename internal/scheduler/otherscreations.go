// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/assignment"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// createWithin is the time for which the pods of a gang may be created by another operator, after this one has first read their place, and
// in which the scaling groups ask for what an earlier leader has recorded.
const createWithin = 10 * time.Second

// awaitOthers adds the replicas without pods of gangs that another operator has recorded just now: it may create their pods at this moment.
// They keep the domain of their graph and component, and their hosts, and are not placed again meanwhile. Pods of earlier attempts are
// deleted, and those that follow them may be created as well. Asked replicas are added when they are not created as recorded.
func (l *ledger) awaitOthers(o *gang.Observation, d *decision, asked bool) {
	if o.Record == nil {
		return
	}
	theirs := l.recordedByOthers(o, d.graph)
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
		return len(planned[key]) > 0 && (!asked || l.isCreated(planned[key][0]))
	})
	l.holdForOthers(*o, d.graph, theirs)
	for key, place := range theirs {
		pods, is := planned[key]
		if !is {
			pods = o.PlannedReplica(key)
			o.Pods = append(o.Pods, pods...)
		}
		for _, pod := range pods {
			id := topology.PodID(pod)
			l.planned[id] = plannedPod{pod: pod, graph: d.graph, others: true}
			l.pods.change(id, func(r *released) { r.releasing, r.domain, r.attempt = true, place.Domain, place.Attempt })
		}
		d.lookAt(place.until)
	}
}

// othersPlace is where another operator may be creating a replica, and until when.
type othersPlace struct {
	assignment.Place
	until time.Time
}

// recordedByOthers returns the replicas without pods that another operator has recorded in a gang just now.
func (l *ledger) recordedByOthers(o *gang.Observation, graph types.NamespacedName) map[gang.Key]othersPlace {
	theirs, now := map[gang.Key]othersPlace{}, l.clock.Now()
	was, known := l.theirs[graph], map[gang.Key]knownPlace{}
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
	if l.theirs[graph] = known; len(known) == 0 {
		delete(l.theirs, graph)
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
func (l *ledger) holdForOthers(o gang.Observation, graph types.NamespacedName, theirs map[gang.Key]othersPlace) {
	for _, one := range gang.RecordedPods(o) {
		_, held := l.holds.byPod[one.Name]
		if place, is := theirs[one.Replica]; is && !held && one.UID == "" {
			l.holdRecordedPod(graph, one, place.until)
			l.wakeLoop() // it sets its timer by the holds
		}
	}
}

// isCreated reports whether a planned pod has a recorded place, or is given one.
func (l *ledger) isCreated(pod *corev1.Pod) bool { return l.planned[topology.PodID(pod)].pod != nil }
