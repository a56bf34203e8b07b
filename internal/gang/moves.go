// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"fmt"

	"github.com/trellis-k8s/trellis/internal/placement"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// left is the former domain of a replica, and the reason why the plan does not try this domain first.
type left struct {
	from topology.Path
	// host is the host that rejected the replica's pods. If the pods ended before their domain was recorded, the labels of the host give
	// the former domain.
	host string
	why  string
}

// Moved returns a message with the old and the new domain of a replica, and the reason for the move; "" when the replica returns to its old
// domain, or has no domain of its own. The reservations for the replica's new place must already be in the cluster.
func (r *Request) Moved(c *topology.Cluster, replica placement.ReplicaResult) string {
	component, waiting := r.waiting(replica)
	if waiting == nil {
		return ""
	}
	levels := r.Graph.PlaceOf(component.Name).Levels
	left, leaves := r.left[Key{Component: replica.Component, Ordinal: replica.Ordinal}]
	switch {
	case !leaves:
		left.from = waiting.Hint
	case len(left.from) == 0:
		left.from = levels.PathOf(c.NodeLabels(left.host))
	}
	level := max(component.Required, component.Preferred, r.Graph.Required, r.Graph.Preferred)
	from, to := left.from.Truncate(level), PinnedDomain(c, levels, replica).Truncate(level)
	// If the former pods were pinned to a broader domain that contains the new domain, the replica did not move.
	if len(from) == 0 || level == topology.NoLevel || from.Contains(to) {
		return ""
	}
	if leaves {
		return fmt.Sprintf("from %s to %s: %s", from, to, left.why)
	}
	why := "its graph is placed elsewhere"
	if len(r.Graph.Anchor) == 0 || r.Graph.Anchor.Equal(from.Truncate(r.Graph.Anchor.Level())) {
		c.Begin()
		for _, pod := range replica.Pods {
			c.Forget(pod.ID)
		}
		place := r.Graph.PlaceOf(component.Name)
		_, refusal := placement.PlanGroup(c, place.Levels, place.NodeSelector, &placement.Group{
			Name: replica.Component, Required: topology.NoLevel, Preferred: topology.NoLevel, Within: from, Pods: waiting.Pods,
		}, placement.Options{})
		c.Rollback()
		if refusal != nil {
			why = refusal.Message()
		}
	}
	return fmt.Sprintf("from %s to %s: %s", from, to, why)
}

// waiting returns the waiting replica to which a result belongs, and its component; nil if there is none.
func (r *Request) waiting(replica placement.ReplicaResult) (*placement.Component, *placement.Replica) {
	for i := range r.Graph.Components {
		component := &r.Graph.Components[i]
		if component.Name != replica.Component {
			continue
		}
		for j := range component.Waiting {
			if component.Waiting[j].Ordinal == replica.Ordinal {
				return component, &component.Waiting[j]
			}
		}
	}
	return nil, nil
}
