// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"math"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// liftRest gives the capacity that gated pods have kept, of gangs that are released in part, to the plan that is made now for them.
func (l *ledger) liftRest(r *gang.Request) {
	for id := range r.Gated {
		l.cluster.Forget(id)
	}
}

// trackParted notes since when the plan has refused the rest of replicas that were never whole: when it stays so, stuckGangs has their
// gang evicted. Without a plan the last one stands: creations of the same graph would otherwise start the time again and again.
func (l *ledger) trackParted(o gang.Observation, d *decision) {
	now, refused := l.clock.Now(), false
	for _, pod := range o.Pods {
		id := topology.PodID(pod)
		if !d.unplanned || d.parted[id] != "" {
			l.pods.setParted(id, d.parted[id], now)
		}
		refused = refused || l.pods.of(id).parted.why != ""
	}
	if refused {
		d.lookAt(now.Add(l.options.RequeueAfter))
	}
}

// begin has pods keep their capacity when their release fails: their gang has begun. Pods that are gone have none.
func (l *ledger) begin(pods []gang.Release) {
	for _, r := range pods {
		if id := topology.PodID(r.Pod); l.pods.of(id).releasing {
			l.pods.change(id, func(p *released) { p.begun, p.gang = true, r.Pin.Gang })
		}
	}
}

// giveBack ends the reservation of a pod that was not released.
func (l *ledger) giveBack(id string) {
	l.pods.notReleased(id)
	l.cluster.Forget(id)
}

// endOutdatedReleases ends the reservations of releases at an earlier attempt than the recorded one: another operator has placed their
// replica again.
func (l *ledger) endOutdatedReleases(o gang.Observation) {
	if o.Record == nil {
		return
	}
	for _, pod := range o.Pods {
		id := topology.PodID(pod)
		if r := l.pods.of(id); r.releasing && r.attempt > 0 && r.attempt < o.Record.LowestAttempt(o.KeyOf(pod)) {
			l.giveBack(id)
		}
	}
}

// forsakenGivenBack ends the reservations of gated pods whose gang has lost what was released of it: it does not continue, and its pods are
// planned like others. While a release of the graph is under way the cache does not show what is released.
func (l *ledger) forsakenGivenBack(pods []*corev1.Pod) {
	released := map[string]bool{}
	for _, pod := range pods {
		if record := l.pods.of(topology.PodID(pod)); record.releasing && !record.begun {
			return
		}
		if !gang.Leaving(pod) && !render.GateClosed(pod) {
			released[pod.Annotations[render.AnnotationGang]] = true
		}
	}
	for _, pod := range pods {
		id := topology.PodID(pod)
		if record := l.pods.of(id); record.begun && !record.releasing && !released[record.gang] {
			l.giveBack(id)
		}
	}
}

// uncount ends what a pod takes of its node, if anything: it has ended, or is gone. Its capacity is held from whichever comes first, and
// only once: when an ended pod is deleted, others may have the capacity.
func (l *ledger) uncount(pod *corev1.Pod, id string) {
	if len(gang.NodesOf(l.cluster, id)) > 0 {
		l.holdCapacityOf(pod)
	}
	node := ""
	if l.isUnfinished(pod, id) {
		node, _ = l.cluster.Reserved(id)
	}
	l.cluster.DeletePod(id)
	l.resumeHold(client.ObjectKeyFromObject(pod), node)
	l.victimGone(pod)
	l.podLeft(pod)
}

// isUnfinished reports whether a pod that was released or created in place, and never bound, goes because its gang could not be completed.
// Others of its name follow, which get the capacity that was held for them.
func (l *ledger) isUnfinished(pod *corev1.Pod, id string) bool {
	_, held := l.holds.byPod[client.ObjectKeyFromObject(pod)]
	record := l.pods.of(id)
	if held || pod.Annotations[render.AnnotationGang] == "" || render.GateClosed(pod) || pod.Spec.NodeName != "" ||
		record.requeued && !record.uncreated {
		return false
	}
	_, followed := l.followed(pod)
	return followed && !l.holds.wasPreempted(gang.Of(pod))
}

// resumeHold holds the capacity of a lost pod, which its successor was to be created with, for the rest of its time: the successor is
// created gated, or in place again.
func (l *ledger) resumeHold(pod types.NamespacedName, node string) {
	if l.holds.resume(l.cluster, pod, node, l.clock.Now()) {
		l.wakeLoop() // it sets its timer by the holds
	}
}

// gone ends all that is known of a pod.
func (l *ledger) gone(pod *corev1.Pod, id string) {
	if name := client.ObjectKeyFromObject(pod); l.own[name] != nil && l.own[name].UID == pod.UID {
		delete(l.own, name)
	}
	l.uncount(pod, id)
	l.pods.forget(id)
	delete(l.freer.requests, id)
}

// onItsWay reports whether the release of a pod is under way.
func (l *ledger) onItsWay(pod *corev1.Pod) bool { return l.pods.of(topology.PodID(pod)).releasing }

// mayUse reports whether a waiting graph, which holds capacity or not, may be placed after a change of a node.
func (l *ledger) mayUse(holds bool, w waiting, node string) bool {
	if holds || w.unmet == nil || l.reserver.current != nil {
		return true // it may have more than what is free for everybody
	}
	if w.preemptsBelow > math.MinInt32 && l.cluster.AnyBelow(w.preemptsBelow) {
		return true
	}
	return w.unmet.MayFit(l.cluster, node)
}
