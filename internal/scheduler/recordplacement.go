// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/assignment"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// recordAfter is how long what has happened to gangs is collected before it is recorded, while others of the graph are still to be bound.
// What is decided is recorded before it is done.
const recordAfter = time.Second

// record decides what is recorded of a graph: what its pods show, and what the decision assigns.
func (l *ledger) record(o gang.Observation, d *decision) {
	if o.Record == nil {
		return
	}
	now := l.clock.Now()
	next := l.followRecord(o, d.graph, now)
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

// followRecord returns what is recorded of a graph, with what its pods show by now.
func (l *ledger) followRecord(o gang.Observation, graph types.NamespacedName, now time.Time) *assignment.Record {
	o.Releasing, _ = l.pods.observed(o.Pods)
	o.Creations = l.options.Creations.ofGraph(graph)
	next := o.Record.Clone()
	next.Follow(gang.Shown(o), gang.WantsReplica(o), now)
	return next
}

// assign adds the places that a decision assigns.
func assign(next *assignment.Record, o gang.Observation, d *decision, now time.Time) {
	components := map[string]string{}
	for _, sg := range o.Groups {
		components[sg.Name] = sg.Spec.Service
	}
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
		next.Assign(releases[0].Pin.Gang, key, releases[0].Domain, hostsByIndex(releases), now)
	}
}

// hostsByIndex are the planned hosts of pods, by their index in the replica.
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

// evictedRecord returns what is recorded of a graph of which gangs are evicted; nil when that is recorded already.
func (l *ledger) evictedRecord(o gang.Observation, gangs map[string]eviction) *assignment.Record {
	l.mu.Lock()
	defer l.mu.Unlock()
	now, members := l.clock.Now(), map[string][]gang.Key{}
	next, changed := l.followRecord(o, client.ObjectKeyFromObject(o.DGD), now), false
	for key, one := range gang.Shown(o) {
		members[one.Gang] = append(members[one.Gang], key)
	}
	for of, why := range gangs {
		changed = next.Evict(of, members[of], why.why, now) || changed
	}
	if !changed {
		return nil
	}
	return next
}

// recordEviction records that gangs are evicted, before any of their pods is deleted, and reports whether that is done. Otherwise the graph
// is evaluated again.
func (s *Scheduler) recordEviction(ctx context.Context, o gang.Observation, gangs map[string]eviction, evict []*corev1.Pod) bool {
	was, err := s.placements.of(ctx, o.DGD)
	if err == nil && was.record == nil {
		return true
	}
	if err == nil {
		o.Record = was.record
		next := s.ledger.evictedRecord(o, gangs)
		if next == nil {
			return true
		}
		err = s.placements.write(ctx, o.DGD, was, next)
	}
	if err == nil {
		return true
	}
	logger(ctx, o.DGD).Error(err, "recording that gangs are evicted")
	for _, pod := range evict {
		s.ledger.notEvicted(pod)
	}
	s.queue.retry(client.ObjectKeyFromObject(o.DGD), s.options.Clock.Now())
	return false
}

// carryOut records a decision, and then releases and offers what it has placed. It waits for the record of none but what is recorded
// already: meanwhile the graph is not evaluated.
func (w *writers) carryOut(ctx context.Context, dgd *nvidiav1beta1.DynamoGraphDeployment, gangs []*gangRelease, creations *Creations,
	d *decision) {
	decided := *d
	if decided.record == nil {
		w.start(ctx, dgd, gangs, creations, &decided)
		return
	}
	w.ledger.decides(decided.graph, 1)
	if !w.slot(ctx) {
		return
	}
	go func() {
		err := w.placements.write(ctx, dgd, decided.recorded, decided.record)
		<-w.slots
		if err != nil {
			w.notRecorded(ctx, dgd, gangs, creations, &decided, err)
		} else {
			w.start(ctx, dgd, gangs, creations, &decided)
		}
		w.queue.wakeUp(w.ledger.decided(decided.graph, 1))
	}()
}

// start releases the gangs of a decision, and answers the groups that asked for places.
func (w *writers) start(ctx context.Context, dgd *nvidiav1beta1.DynamoGraphDeployment, gangs []*gangRelease, creations *Creations,
	d *decision) {
	w.release(ctx, gangs)
	w.answer(ctx, dgd, creations, d)
}

// answer answers the groups that asked for places.
func (w *writers) answer(ctx context.Context, dgd *nvidiav1beta1.DynamoGraphDeployment, creations *Creations, d *decision) {
	if creations != nil {
		w.offer(ctx, dgd, creations, d.creations, w.clear)
		creations.tellAll(d.answered)
	}
}

// notRecorded gives back what a decision has placed that could not be recorded.
func (w *writers) notRecorded(ctx context.Context, dgd *nvidiav1beta1.DynamoGraphDeployment, gangs []*gangRelease, creations *Creations,
	d *decision, err error) {
	if ctx.Err() == nil {
		logger(ctx, dgd).Error(err, "recording where replicas are placed")
	}
	for _, g := range gangs {
		for _, release := range g.pods {
			w.ledger.notReleased(release.Pod, w.ledger.isBegun(topology.PodID(release.Pod)), err)
		}
	}
	if creations != nil {
		creations.withdraw(d.creations)
		creations.tellAll(d.answered)
	}
	if len(gangs)+len(d.creations) > 0 {
		w.queue.wakeUp(w.ledger.releaseFailed(d.graph, err))
	} else {
		w.queue.retry(d.graph, w.clock.Now())
	}
}
