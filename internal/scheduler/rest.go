// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// liftRest gives the capacity that gated pods have kept, of gangs that are released in part, to the plan that is made now for them. Called with the
// lock held.
func (s *Scheduler) liftRest(r *gang.Request) {
	for id := range r.Gated {
		s.cluster.Forget(id)
	}
}

// trackParted notes since when the plan has refused the rest of replicas that were never whole: when it stays so, requeueStuck evicts their gang.
// Called with the lock held.
func (s *Scheduler) trackParted(o gang.Observation, parted map[string]string) {
	now := s.options.Clock.Now()
	for _, pod := range o.Pods {
		id := topology.PodID(pod)
		s.unbound.setParted(id, parted[id], now)
	}
	if len(parted) > 0 {
		s.queue.addAt(client.ObjectKeyFromObject(o.DGD), now.Add(s.options.RequeueAfter))
	}
}
