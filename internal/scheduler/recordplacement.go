// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/trellis-k8s/trellis/internal/assignment"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/render"
)

// recordAfter is the time for which observed changes of gangs are collected, while other gangs of the graph are unbound. Decisions are
// recorded immediately.
const recordAfter = time.Second

// record determines the new record of a graph, from its pods and the decision.
func (l *ledger) record(o gang.Observation, d *decision) {
	if o.Record == nil {
		return
	}
	now := l.clock.Now()
	next := l.followRecord(o, d.graph, func(gang string) bool { return d.stands[gang] }, now)
	assign(next, o, d, now)
	if len(next.Gangs)+len(next.Bound) > 0 {
		next.Domain = d.result.Domain
	}
	if next.Equal(o.Record) {
		delete(l.unrecorded, d.graph)
		return
	}
	if len(d.releases)+len(d.creations) == 0 && (next.Unbound() || len(d.result.Waiting) > 0 || d.result.Creating) {
		since, known := l.unrecorded[d.graph]
		if !known {
			since = now
			l.unrecorded[d.graph] = now
		}
		if due := since.Add(recordAfter); now.Before(due) {
			d.lookAt(due)
			return
		}
	}
	delete(l.unrecorded, d.graph)
	d.record = next
}

// followRecord returns the record of a graph, updated by its pods.
func (l *ledger) followRecord(o gang.Observation, graph types.NamespacedName, stands func(gang string) bool, now time.Time,
) *assignment.Record {
	o.Releasing, _ = l.pods.observed(o.Pods)
	o.Creations = l.options.Creations.ofGraph(graph)
	next := o.Record.Clone()
	for of, kept := range l.kept {
		switch {
		case kept.graph != graph:
		case next.Evicting(of):
			next.Keep(of, kept.since)
		default:
			delete(l.kept, of)
		}
	}
	next.Follow(gang.Shown(o), gang.WantsReplica(o), stands, now)
	return next
}

// assign adds the new places of a decision.
func assign(next *assignment.Record, o gang.Observation, d *decision, now time.Time) {
	components := map[string]string{}
	for _, sg := range o.Groups {
		components[sg.Name] = sg.Spec.Service
	}
	d.again = map[string]bool{}
	byReplica := map[gang.Key][]gang.Release{}
	for _, release := range d.releases {
		ordinal, _, _ := render.ReplicaOf(release.Pod)
		key := gang.Key{Component: components[release.Pod.Labels[render.LabelScalingGroup]], Ordinal: int(ordinal)}
		byReplica[key] = append(byReplica[key], release)
	}
	for _, one := range d.creations {
		byReplica[one.key] = one.releases
	}
	for key, releases := range byReplica {
		if was := o.Record.GangOf(key); was != "" && was != releases[0].Pin.Gang {
			d.again[gang.Of(releases[0].Pod)] = true
		}
		next.Assign(releases[0].Pin.Gang, key, releases[0].Domain, hostsByIndex(releases), now)
		if releases[0].Base {
			next.Begins(releases[0].Pin.Gang)
		}
	}
}

// hostsByIndex returns the planned hosts of pods, by their index in the replica.
func hostsByIndex(releases []gang.Release) (hosts []string) {
	for _, release := range releases {
		_, index, _ := render.ReplicaOf(release.Pod)
		for len(hosts) <= int(index) {
			hosts = append(hosts, "")
		}
		hosts[index] = release.Pin.Node
	}
	return hosts
}
