// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/placement"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// This file is the loop's side of Creations: what the ledger reads of them before a plan, and what it decides about them.

// ofGraph are the creations of a graph as a plan sees them.
func (b *Creations) ofGraph(graph types.NamespacedName) gang.Creations {
	if b == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	out := gang.Creations{}
	for _, one := range b.byName {
		if one.graph != graph || one.state == creationGated {
			continue
		}
		if out[one.uid] == nil {
			out[one.uid] = map[int32]*gang.Creation{}
		}
		out[one.uid][int32(one.key.Ordinal)] = &gang.Creation{Pods: one.pods, Placed: one.state >= creationPlaced, Domain: one.domain}
	}
	return out
}

// underWay reports whether creations of a graph have a place whose pods are not seen yet.
func (b *Creations) underWay(graph types.NamespacedName) bool {
	if b == nil {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.ContainsFunc(b.of(graph), func(one *creation) bool { return one.state >= creationPlaced && len(one.reserved) > 0 })
}

// takeEnded returns the reservations of creations of a graph that have ended, once. With all, every creation that has begun ends: the
// graph is gone.
func (b *Creations) takeEnded(graph types.NamespacedName, all bool) []endedReservation {
	if b == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if all {
		for _, one := range b.of(graph) {
			if one.state >= creationPlaced {
				b.remove(one)
			}
		}
	}
	ended := b.ended[graph]
	delete(b.ended, graph)
	return ended
}

// of lists the creations of a graph. Called with the lock held.
func (b *Creations) of(graph types.NamespacedName) (out []*creation) {
	for _, one := range b.byName {
		if one.graph == graph {
			out = append(out, one)
		}
	}
	return out
}

// takenOver notes that a pod has taken over its reservation, and returns the ID of that; false for a pod without one.
func (b *Creations) takenOver(pod *corev1.Pod) (id string, is bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	one := b.ofPod(pod)
	if one == nil {
		return "", false
	}
	if id = string(gang.PlannedUID(one.name, pod.Name)); !one.reserved[id] {
		return "", false
	}
	delete(one.reserved, id)
	b.settleMade(one)
	return id, true
}

// endMade ends the creations of a graph whose pods are created and known to be gone or to have taken over their reservations.
func (b *Creations) endMade(graph types.NamespacedName) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, one := range b.of(graph) {
		if one.state >= creationBegun && one.shown {
			b.remove(one)
		}
	}
}

// settle takes in what a look at a graph has decided about the creations that it saw: seen are those. The placed ones are offered next, and
// undecided ones wait for others of their gang; all others are created gated. It returns the groups that have an answer, what is placed,
// and what was placed for nothing: a creation that has ended since is not placed, and neither is the rest of its gang, which asks again.
func (b *Creations) settle(
	graph types.NamespacedName, seen gang.Creations, placed []plannedCreation, undecided map[gang.Key]bool, asksMore bool,
) (answered []types.NamespacedName, kept, unused []plannedCreation) {
	b.mu.Lock()
	defer b.mu.Unlock()
	asked := map[gang.Key]*creation{}
	for _, one := range b.of(graph) {
		if at := seen[one.uid][int32(one.key.Ordinal)]; one.state == creationAsked && at != nil && slices.Equal(at.Pods, one.pods) {
			asked[one.key] = one
		}
	}
	ended := map[string]bool{} // gangs
	for _, p := range placed {
		ended[p.gang] = ended[p.gang] || asked[p.key] == nil
	}
	gangs := map[string]*createdGang{}
	for _, p := range placed {
		if one := asked[p.key]; ended[p.gang] {
			unused = append(unused, p)
		} else {
			kept = append(kept, p)
			b.place(one, p, gangs)
		}
		delete(asked, p.key)
	}
	for key, one := range asked {
		if !undecided[key] || one.more && asksMore {
			one.state = creationGated
			answered = append(answered, one.group)
		}
	}
	return answered, kept, unused
}

// place gives a creation its place. Called with the lock held.
func (b *Creations) place(one *creation, p plannedCreation, gangs map[string]*createdGang) {
	of := gangs[p.gang]
	if of == nil {
		of = &createdGang{name: p.gang}
		gangs[p.gang] = of
	}
	of.members = append(of.members, one)
	one.state, one.domain, one.gang, one.releases = creationPlaced, p.domain, of, map[int32]gang.Release{}
	one.base = p.releases[0].Base || len(p.releases[0].Undecided) > 0
	for _, release := range p.releases {
		_, index, _ := render.ReplicaOf(release.Pod)
		one.releases[index] = release
		one.reserved[topology.PodID(release.Pod)] = true
	}
}

// offer makes the recorded places of a gang known to its groups.
func (b *Creations) offer(graph types.NamespacedName, placed []plannedCreation) {
	b.mu.Lock()
	var tell []types.NamespacedName
	for _, one := range b.of(graph) {
		at := slices.IndexFunc(placed, func(p plannedCreation) bool { return p.key == one.key })
		if one.state == creationPlaced && at >= 0 && one.gang.name == placed[at].gang {
			one.state, one.attempt = creationOffered, placed[at].releases[0].Pin.Attempt
			tell = append(tell, one.group)
		}
	}
	b.mu.Unlock()
	b.tellAll(tell)
}

// takeCreations brings the reservations of a graph's creations up to date: those of ended ones are dropped, and pods that exist take over
// theirs. o is read under the lock, so it shows every pod that a group has shown to be created.
func (l *ledger) takeCreations(o *gang.Observation, d *decision) {
	creations := l.options.Creations
	if creations == nil {
		return
	}
	for _, pod := range o.Pods {
		l.takeOver(pod)
	}
	creations.endMade(d.graph)
	l.forgetEnded(d.graph, false)
	o.Creations, o.Unfinished = creations.ofGraph(d.graph), creations.unfinished(d.graph, o.Pods)
	o.Uncreatable = creations.uncreatable(d.graph, o.Record)
	l.endPredecessors(o)
}

// forgetEnded ends the reservations of creations of a graph that have ended; with all, those of all its creations.
func (l *ledger) forgetEnded(graph types.NamespacedName, all bool) {
	for _, one := range l.options.Creations.takeEnded(graph, all) {
		l.endReservation(one.id, one.pod)
	}
}

// endReservation ends the reservation of a pod that is not created in place.
func (l *ledger) endReservation(id string, pod types.NamespacedName) {
	node, _ := l.cluster.Reserved(id)
	l.cluster.Forget(id)
	l.resumeHold(pod, node)
}

// noteOwn remembers a pod by its name, where a successor of it may be created in place.
func (l *ledger) noteOwn(pod *corev1.Pod) {
	if _, _, owned := render.GroupOf(pod); owned && l.options.Creations != nil {
		l.own[client.ObjectKeyFromObject(pod)] = pod
	}
}

// endPredecessors takes in that the pods are gone whose successors are to be created. The API cache shows that before the ledger is told:
// a gated successor is told after it, one that does not exist yet is planned at once. Without it a replica would not be given the capacity
// of its predecessor.
func (l *ledger) endPredecessors(o *gang.Observation) {
	exist := map[types.UID]bool{}
	for _, pod := range o.Pods {
		exist[pod.UID] = true
	}
	for group, byOrdinal := range o.Creations {
		for _, one := range byOrdinal {
			for _, successor := range one.Pods {
				pod := l.own[client.ObjectKeyFromObject(successor)]
				if pod == nil || exist[pod.UID] {
					continue
				}
				if _, of, _ := render.GroupOf(pod); of == group {
					id := topology.PodID(pod)
					l.gone(pod, id)
					l.past[id] = true
				}
			}
		}
	}
}

// takeOver gives a pod that was created in place the reservation that was created for it.
func (l *ledger) takeOver(pod *corev1.Pod) {
	if l.options.Creations == nil || pod.Annotations[render.AnnotationGang] == "" {
		return
	}
	id, is := l.options.Creations.takenOver(pod)
	if !is {
		return
	}
	own := topology.PodID(pod)
	if _, bound := l.cluster.Bound(own); bound || gang.Leaving(pod) {
		l.cluster.Forget(id)
		return
	}
	l.cluster.HandOver(id, pod)
	l.pods.change(own, func(r *released) { r.at = l.clock.Now() })
}

// settleCreations answers what was asked for a graph, and ends the reservations of what was planned for nothing: groups ask, and end what
// they asked for, while a plan is made.
func (l *ledger) settleCreations(o *gang.Observation, d *decision) {
	creations := l.options.Creations
	if creations == nil {
		return
	}
	unused := d.creations
	if len(d.evicted) == 0 {
		d.answered, d.creations, unused = creations.settle(d.graph, o.Creations, d.creations, d.undecided, d.asksMore)
	}
	for _, one := range unused {
		for _, release := range one.releases {
			l.endReservation(topology.PodID(release.Pod), client.ObjectKeyFromObject(release.Pod))
		}
	}
}

func allOf(creations map[gang.Key]*gang.Creation) map[gang.Key]bool {
	out := map[gang.Key]bool{}
	for key := range creations {
		out[key] = true
	}
	return out
}

// undecided are the replicas to be created in place that wait for others of their gang, of which something is still to be created or
// asked for.
func undecided(r *gang.Request, planned *placement.Result, unmade []placement.ReplicaResult) map[gang.Key]bool {
	out := map[gang.Key]bool{}
	for _, replica := range unmade {
		if replica.Refusal == nil && r.Creation(replica) != nil && !r.NotNow(planned, replica) {
			out[gang.Key{Component: replica.Component, Ordinal: replica.Ordinal}] = true
		}
	}
	return out
}
