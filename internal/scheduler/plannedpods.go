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

// addPlanned adds to the pods of a graph those that are to be created in place, and those that another operator may be creating at this
// moment. It ends the reservations of planned pods that no group asks for any more.
func (l *ledger) addPlanned(o *gang.Observation, asks []asked, d *decision) {
	ended := l.options.Asks.endedOf(d.graph)
	if o.Record == nil || len(asks)+len(l.planned)+len(o.Record.Gangs)+len(l.theirs[d.graph]) == 0 {
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
	wanted := map[*corev1.Pod]bool{}
	for _, one := range asks {
		for _, pod := range one.pods {
			wanted[pod] = true
		}
	}
	for id, p := range l.planned {
		if p.graph != graph {
			continue
		}
		place, assigned := o.Record.Assigned(o.KeyOf(p.pod))
		if p.others || !wanted[p.pod] || !assigned || place.Attempt != l.pods.of(id).attempt {
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

// findUncreated adds the gangs with planned pods that are not created ten times --requeue-after after they were placed. They would keep
// their capacity, and the created part of their gang would wait for them.
func (l *ledger) findUncreated(o gang.Observation, d *decision) {
	now, patience := l.clock.Now(), servedPatience*l.options.RequeueAfter
	for id, p := range l.planned {
		if p.graph != d.graph || p.others {
			continue
		}
		due := l.pods.of(id).at.Add(patience)
		if now.Before(due) {
			d.lookAt(due)
			continue
		}
		if d.overdue == nil {
			d.overdue = map[string]bool{}
		}
		d.overdue[o.Record.GangOf(o.KeyOf(p.pod))] = true
	}
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
