// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// liftRest gives the capacity that gated pods have kept, of gangs that are released in part, to the plan that is made now for them.
func (l *ledger) liftRest(r *gang.Request) {
	for id := range r.Gated {
		l.cluster.Forget(id)
	}
}

// trackParted notes since when the plan has refused the rest of replicas that were never whole: when it stays so, stuckGangs has their gang evicted.
func (l *ledger) trackParted(o gang.Observation, d *decision) {
	now := l.clock.Now()
	for _, pod := range o.Pods {
		id := topology.PodID(pod)
		l.pods.setParted(id, d.parted[id], now)
	}
	if len(d.parted) > 0 {
		d.lookAt(now.Add(l.options.RequeueAfter))
	}
}

// begin has pods keep their capacity when their release fails: their gang has begun. Pods that are gone have none.
func (l *ledger) begin(pods []gang.Release) {
	for _, r := range pods {
		if id := topology.PodID(r.Pod); l.pods.of(id).releasing {
			l.pods.change(id, func(r *released) { r.begun = true })
		}
	}
}

// giveBack ends the reservation of a pod that was not released.
func (l *ledger) giveBack(id string) {
	l.pods.notReleased(id)
	l.cluster.Forget(id)
}

// reserveReleased reserves for pods that an earlier leader released and that are not bound yet.
func (l *ledger) reserveReleased(o gang.Observation) { gang.Reserve(l.cluster, o) }

// reserveRest reserves for what is still gated of replicas of which pods are released.
func (l *ledger) reserveRest(o gang.Observation) {
	for _, id := range gang.ReserveRest(l.cluster, o) {
		l.pods.change(id, func(r *released) { r.begun = true })
	}
}
