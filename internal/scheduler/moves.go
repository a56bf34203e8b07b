// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"fmt"

	"github.com/trellis-k8s/trellis/internal/placement"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// EventMoved tells that a replica that was lost comes back, whole, in another domain than it had been in.
const EventMoved = "ReplicaMoved"

// moved says from where to where a replica moves, and why it does not go back; "" when it does, or has no domain of its own. Called with
// the lock held, after the replica has its new place.
func (s *Scheduler) moved(v *view, replica placement.ReplicaResult) string {
	service, waiting := v.waiting(replica)
	if waiting == nil || len(waiting.Hint) == 0 {
		return ""
	}
	level := max(service.Required, service.Preferred, v.graph.Required, v.graph.Preferred)
	from, to := waiting.Hint.Truncate(level), s.narrowest(v.graph.Levels, replica).Truncate(level)
	if level == topology.NoLevel || from.Equal(to) {
		return ""
	}
	why := "its graph is placed elsewhere"
	if len(v.graph.Anchor) == 0 || v.graph.Anchor.Equal(from.Truncate(v.graph.Anchor.Level())) {
		s.cluster.Begin()
		for _, pod := range replica.Pods {
			s.cluster.Forget(pod.ID)
		}
		_, refusal := placement.PlanGroup(s.cluster, v.graph.Levels, v.graph.NodeSelector, &placement.Group{
			Name: replica.Service, Required: topology.NoLevel, Preferred: topology.NoLevel, Within: from, Pods: waiting.Pods,
		}, placement.Options{})
		s.cluster.Rollback()
		if refusal != nil {
			why = refusal.Message()
		}
	}
	return fmt.Sprintf("from %s to %s: %s", from, to, why)
}

// waiting finds what a result is the answer to.
func (v *view) waiting(replica placement.ReplicaResult) (*placement.Service, *placement.Replica) {
	for i := range v.graph.Services {
		service := &v.graph.Services[i]
		if service.Name != replica.Service {
			continue
		}
		for j := range service.Waiting {
			if service.Waiting[j].Ordinal == replica.Ordinal {
				return service, &service.Waiting[j]
			}
		}
	}
	return nil, nil
}
