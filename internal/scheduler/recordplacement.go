// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"maps"
	"slices"
	"time"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/assignment"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// recordAfter is how long observed changes of gangs are collected before they are recorded, while a gang of the graph is unbound or waits.
// Changes by decisions are recorded immediately.
const recordAfter = time.Second

// uncreatable is the eviction message for a gang whose pods could not all be created in place.
const uncreatable = "not all of its pods could be created"

// record determines the new record of a graph, from its pods and the decision.
func (e *evaluation) record(o gang.Observation) {
	if o.Record == nil {
		return
	}
	now, refused := e.clock.Now(), e.options.Asks.refusedOf(e.d.graph, o.Record)
	next, _ := e.followRecord(o, func(gang string) bool { return e.d.stands[gang] }, now)
	assign(next, o, e.d, now)
	maps.Copy(e.d.again, displaced(o, next, refused))
	for i := range e.d.releases {
		e.pods.change(topology.PodID(e.d.releases[i].Pod), func(r *released) { r.attempt = e.d.releases[i].Pin.Attempt })
	}
	if len(next.Gangs)+len(next.Bound) > 0 {
		next.Domain = e.d.result.Domain
	}
	if next.Equal(o.Record) {
		delete(e.unrecorded, e.d.graph)
		return
	}
	if len(e.d.releases)+len(refused) == 0 && (next.Unbound() || len(e.d.result.Waiting) > 0 || e.d.result.Creating) {
		since, known := e.unrecorded[e.d.graph]
		if !known {
			since = now
			e.unrecorded[e.d.graph] = now
		}
		if due := since.Add(recordAfter); now.Before(due) {
			e.d.lookAt(due)
			return
		}
	}
	delete(e.unrecorded, e.d.graph)
	e.d.record = next
}

// followRecord returns a copy of the graph's record, updated from the graph's pods, and the states of the graph's replicas.
func (e *evaluation) followRecord(o gang.Observation, stands func(gang string) bool, now time.Time) (
	*assignment.Record, map[gang.Key]assignment.Shown,
) {
	o.Releasing, _ = e.pods.observed(o.Pods)
	next := o.Record.Clone()
	for of, kept := range e.kept {
		switch {
		case kept.graph != e.d.graph:
		case next.Evicting(of):
			next.Keep(of, kept.since)
		default:
			delete(e.kept, of)
		}
	}
	for _, of := range e.options.Asks.refusedOf(e.d.graph, next) {
		next.Evict(of, nil, uncreatable, now)
	}
	shown := gang.Shown(o)
	next.Follow(shown, gang.WantsReplica(o), stands, now)
	next.SetRefused(slices.Clone(e.refused.places[e.d.graph]))
	next.Freed = e.freer.freedFor(e.d.graph)
	return next, shown
}

// displaced returns the replicas, by [gang.Of], that have no released pods, and that leave an assigned gang or are no longer bound in the
// next record. It omits the replicas of refused gangs, because all their pods are deleted, including pods that are not visible yet.
func displaced(o gang.Observation, next *assignment.Record, refused []string) map[string]bool {
	lost, released := map[string]bool{}, gang.ReleasedReplicas(o)
	add := func(key gang.Key) {
		if name := o.ReplicaName(key); name != "" && !released[name] {
			lost[name] = true
		}
	}
	for of, g := range o.Record.Gangs {
		if g.State != trellisv1alpha1.GangAssigned || slices.Contains(refused, of) {
			continue
		}
		for key := range g.Places {
			if next.GangOf(key) != of {
				add(key)
			}
		}
	}
	for key := range o.Record.Bound {
		_, bound := next.Bound[key]
		if _, recorded := next.PlaceOf(key); recorded && !bound {
			add(key)
		}
	}
	return lost
}

// assign adds the new places of a decision to the record, and sets the attempts in the releases' pins. A replica that stays in its gang and
// has no released pod gets a new attempt, unless it is released as recorded. The attempt is at least the attempt in the host names of the
// replica's existing pods, so that pods that are created later get matching host names. Planned pods have no host names yet.
func assign(next *assignment.Record, o gang.Observation, d *decision, now time.Time) {
	d.assigned, d.again = map[gang.Key]int32{}, map[string]bool{}
	begun := gang.ReleasedReplicas(o)
	byReplica := map[gang.Key][]*gang.Release{}
	for i := range d.releases {
		release := &d.releases[i]
		key := o.KeyOf(release.Pod)
		byReplica[key] = append(byReplica[key], release)
	}
	for key, releases := range byReplica {
		of, name := releases[0].Pin.Gang, gang.Of(releases[0].Pod)
		if was := o.Record.GangOf(key); was != "" && was != of {
			d.again[name] = true
		}
		if next.GangOf(key) == of && !d.stands[of] && !begun[name] {
			d.again[name] = true
			next.Restart(key)
		}
		next.Assign(of, key, releases[0].Domain, hostsByIndex(releases), now)
		if !gang.Planned(releases[0].Pod) {
			next.Raise(key, render.HostAttempt(releases[0].Pod))
		}
		if releases[0].Base {
			next.Begins(of)
		}
		d.assigned[key] = next.AttemptOf(key)
		for _, release := range releases {
			release.Pin.Attempt = d.assigned[key]
		}
	}
}

// hostsByIndex returns the planned hosts of pods, by their index in the replica.
func hostsByIndex(releases []*gang.Release) (hosts []string) {
	for _, release := range releases {
		_, index, _ := render.ReplicaOf(release.Pod)
		for len(hosts) <= int(index) {
			hosts = append(hosts, "")
		}
		hosts[index] = release.Pin.Node
	}
	return hosts
}
