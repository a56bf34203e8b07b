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
// moment. It ends the reservations of planned pods that no group asks for any more.
func (l *ledger) addPlanned(o *gang.Observation, asks []asked, d *decision) {
	ended := l.options.Asks.endedOf(d.graph)
	if o.Record == nil || len(asks)+len(l.planned)+len(o.Record.Gangs) == 0 {
		return
	}
	exist, names, spent := map[gang.Key]bool{}, map[string]bool{}, ended
	for _, pod := range o.Pods {
		l.takeOver(pod)
		key := o.KeyOf(pod)
		if exist[key] = true; !o.Leaves(pod) {
			names[pod.Name] = true
		}
		spent[key] = max(spent[key], render.AttemptOf(pod))
	}
	maps.DeleteFunc(spent, func(key gang.Key, attempt int32) bool { return attempt == 0 || o.Record.GangOf(key) == "" })
	l.spend(d.graph, spent)
	l.endPlanned(*o, d.graph, asks)
	o.Spent, o.Pods = l.spent[d.graph], slices.Clip(o.Pods)
	for _, one := range asks {
		creating := slices.ContainsFunc(one.pods, l.isCreated)
		if !creating && exist[one.key] {
			continue // its group will see that
		}
		if !creating {
			d.asked = append(d.asked, one)
		}
		for _, pod := range one.pods {
			if !names[pod.Name] && l.isCreated(pod) == creating {
				o.Pods = append(o.Pods, pod)
			}
		}
	}
	l.endPredecessors(o)
	l.awaitOthers(o, d, false)
}

// addAllPlanned is addPlanned where nothing is decided about asked replicas.
func (l *ledger) addAllPlanned(o *gang.Observation, asks []asked) {
	d := decision{graph: client.ObjectKeyFromObject(o.DGD)}
	l.addPlanned(o, asks, &d)
	l.awaitOthers(o, &d, true)
}

// isCreated reports whether a planned pod has a recorded place, or is given one.
func (l *ledger) isCreated(pod *corev1.Pod) bool { return l.planned[topology.PodID(pod)].pod != nil }

// spend notes attempts that were carried out.
func (l *ledger) spend(graph types.NamespacedName, attempts map[gang.Key]int32) {
	if l.spent[graph] == nil && len(attempts) > 0 {
		l.spent[graph] = map[gang.Key]int32{}
	}
	for key, attempt := range attempts {
		l.spent[graph][key] = max(l.spent[graph][key], attempt)
	}
}

// endPlanned ends the planned pods of a graph, except for those that are asked for and whose recorded place is that of their reservation.
func (l *ledger) endPlanned(o gang.Observation, graph types.NamespacedName, asks []asked) {
	for id, p := range l.planned {
		if p.graph != graph {
			continue
		}
		stays := !p.others && slices.ContainsFunc(asks, func(one asked) bool { return slices.Contains(one.pods, p.pod) })
		if place, assigned := o.Record.Assigned(o.KeyOf(p.pod)); !stays || !assigned || place.Attempt != l.pods.of(id).attempt {
			l.notCreated(p.pod)
		}
	}
}

// notCreated ends the reservation of a planned pod. The capacity of its predecessor is held for the rest of its time.
func (l *ledger) notCreated(pod *corev1.Pod) {
	id := topology.PodID(pod)
	node, _ := l.cluster.Reserved(id)
	l.giveBack(id)
	delete(l.planned, id)
	l.resumeHold(client.ObjectKeyFromObject(pod), node)
}

// giveBackRelease ends the reservation of a pod that was not released, or not created.
func (l *ledger) giveBackRelease(release gang.Release) {
	if gang.Planned(release.Pod) {
		l.notCreated(release.Pod)
	} else {
		l.giveBack(topology.PodID(release.Pod))
	}
}

// beginRelease notes that a pod is being released, or created.
func (l *ledger) beginRelease(release gang.Release, graph types.NamespacedName) {
	l.pods.begin(release, l.clock.Now())
	if gang.Planned(release.Pod) {
		l.planned[topology.PodID(release.Pod)] = plannedPod{pod: release.Pod, graph: graph}
	}
}

// creates reports whether pods of a graph are being created in place that were not seen yet.
func (l *ledger) creates(graph types.NamespacedName) bool {
	for _, p := range l.planned {
		if p.graph == graph {
			return true
		}
	}
	return false
}

// awaitOthers adds the replicas without pods of gangs that another operator has recorded just now: it may create their pods at this moment.
// They keep the domain of their graph and component, and their hosts, and are not placed again meanwhile. Pods of earlier attempts are
// deleted, and those that follow them may be created as well. Asked replicas are added when they are not created as recorded.
func (l *ledger) awaitOthers(o *gang.Observation, d *decision, asked bool) {
	if o.Record == nil {
		return
	}
	theirs := l.recordedByOthers(o)
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
func (l *ledger) recordedByOthers(o *gang.Observation) map[gang.Key]othersPlace {
	theirs, now := map[gang.Key]othersPlace{}, l.clock.Now()
	for _, g := range o.Record.Gangs {
		left := createWithin - min(now.Sub(g.Since), now.Sub(l.started))
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
func (l *ledger) holdForOthers(o gang.Observation, graph types.NamespacedName, theirs map[gang.Key]othersPlace) {
	for _, one := range gang.RecordedPods(o) {
		_, held := l.holds.byPod[one.Name]
		if place, is := theirs[one.Replica]; is && !held && one.UID == "" {
			l.holdRecordedPod(graph, one, place.until)
			l.wakeLoop() // it sets its timer by the holds
		}
	}
}

// noteOwn remembers a pod by its name, where a successor of it may be created in place.
func (l *ledger) noteOwn(pod *corev1.Pod) {
	if _, _, owned := render.GroupOf(pod); owned && l.options.Asks != nil {
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
	for _, successor := range o.Pods {
		if !gang.Planned(successor) {
			continue
		}
		pod := l.own[client.ObjectKeyFromObject(successor)]
		if pod == nil || exist[pod.UID] {
			continue
		}
		_, former, _ := render.GroupOf(pod)
		if _, group, _ := render.GroupOf(successor); former == group {
			id := topology.PodID(pod)
			l.gone(pod, id)
			l.past[id] = true
		}
	}
}

// takeOver gives a pod that was created in place the reservation that was made for it.
func (l *ledger) takeOver(pod *corev1.Pod) {
	if len(l.planned) == 0 {
		return
	}
	_, group, owned := render.GroupOf(pod)
	id := string(gang.PlannedUID(group, pod.Name))
	if _, is := l.planned[id]; !is || !owned || l.pods.of(id).attempt != render.AttemptOf(pod) {
		return
	}
	delete(l.planned, id)
	l.pods.forget(id)
	own := topology.PodID(pod)
	if _, bound := l.cluster.Bound(own); bound || gang.Leaving(pod) {
		l.cluster.Forget(id)
		return
	}
	l.cluster.HandOver(id, pod)
	l.pods.change(own, func(r *released) { r.at = l.clock.Now() })
}

// settleAsks determines which asks are answered: placed replicas by their recorded attempts, when they are recorded, and undecided ones
// later. All others are created gated.
func (l *ledger) settleAsks(d *decision) {
	if len(d.evicted) > 0 {
		return
	}
	for _, one := range d.asked {
		if !l.isCreated(one.pods[0]) && !d.undecided[one.key] {
			d.gated = append(d.gated, one.pods[0])
		}
	}
}
