// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/newpod"
	"github.com/trellis-k8s/trellis/internal/placement"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// groupView adds the replicas of one scaling group to a request, as a component.
type groupView struct {
	r         *Request
	sg        *trellisv1alpha1.ScalingGroup
	component placement.Component
	last      map[int32][]string
	// clusterTopology is the current ClusterTopology. lost are the levels that the group requires but the ClusterTopology does not offer.
	clusterTopology *grovev1alpha1.ClusterTopology
	lost            lostLevels
	states          []replicaState
	// admission has the objects that the API server's admission reads for new pods.
	admission *newpod.Objects
	// wanted are the shapes of pods that do not exist yet, by role.
	wanted map[string]*topology.Shape
	// ahead is how many more pods that do not exist yet the plan may include.
	ahead int
}

func (g *groupView) keyOf(state replicaState) Key {
	return Key{Component: g.component.Name, Ordinal: state.ordinal}
}

func (g *groupView) waits(state replicaState, code, message string) Waiting {
	return Waiting{Component: g.component.Name, Ordinal: state.ordinal, Code: code, Message: message}
}

// addReplica counts a placed replica, or adds a waiting replica to the component.
func (g *groupView) addReplica(state replicaState) {
	r := g.r
	unbound := func(pod *corev1.Pod) bool { return pod.Spec.NodeName == "" }
	r.unbound = r.unbound || state.replaced() || slices.ContainsFunc(state.open, unbound)
	if state.replaced() {
		if _, why := firstSaid(state.leaving, r.o.NotEnding); why != "" { // the replica cannot be recreated yet
			r.Refused = append(r.Refused, g.waits(state, CodePodsNotEnding, why))
		}
		return
	}
	if len(state.closed) == 0 && state.absent == 0 {
		g.component.Placed++
		if code, why := r.o.whyUnbound(state); code != "" {
			r.Refused = append(r.Refused, g.waits(state, code, why))
		} else {
			r.Placed++
		}
		return
	}
	replica := g.unplaced(state)
	if level := g.lost.blocks(r.Graph.Anchor != nil, g.component.Anchor != nil || len(state.open) > 0, len(state.open) > 0); level != "" {
		r.Blocked = append(r.Blocked, g.waits(state, placement.CodeLevelGone, unavailable(g.sg.Spec.Topology, g.clusterTopology, level)))
		return
	}
	g.addPods(&replica, state)
	if why := AdmissionWait(state.closed); why != "" {
		r.admission.awaiting[g.keyOf(state)] = why
	}
	slices.SortFunc(replica.Pods, func(a, b placement.Pod) int { return cmp.Compare(a.Name, b.Name) })
	g.component.Waiting = append(g.component.Waiting, replica)
}

// unplaced returns a replica that has pods to place, still without these pods. It sets the replica's former domain, the pinned domain, and
// the IDs of the replica's released pods.
func (g *groupView) unplaced(state replicaState) placement.Replica {
	key := g.keyOf(state)
	replica := placement.Replica{Ordinal: state.ordinal, Avoid: g.avoid(key), Generation: generationOf(g.sg, state)}
	if _, leaves := g.r.left[key]; !leaves {
		replica.Hint = g.r.o.Record.FormerDomain(key)
	}
	if len(state.open) > 0 {
		replica.Anchor = state.path
		for _, pod := range state.open {
			replica.On = append(replica.On, topology.PodID(pod))
		}
		g.r.halves[key] = state
	}
	return replica
}

// avoid returns the hosts that a replica uses only as a last resort: hosts that rejected its pods, and hosts that preemption victims did
// not leave in time. If a host rejected its pods, avoid also records that the plan must not try the replica's former domain first.
func (g *groupView) avoid(key Key) (hosts []string) {
	last := g.last[int32(key.Ordinal)]
	if len(last) > 0 {
		g.r.left[key] = left{
			from: g.r.o.Record.FormerDomain(key), host: last[0],
			why: fmt.Sprintf("node %s has rejected its pods and comes last for it", last[0]),
		}
	}
	hosts = slices.Clone(last)
	for _, host := range g.r.o.Avoid[replicaName(g.sg, key.Ordinal)] {
		if !slices.Contains(hosts, host) {
			hosts = append(hosts, host)
		}
	}
	return hosts
}

// addPods adds to a replica the pods that must be placed, including pods that do not exist yet.
func (g *groupView) addPods(replica *placement.Replica, state replicaState) {
	for _, pod := range state.closed {
		g.r.lowerPriority(pod)
		id := topology.PodID(pod)
		g.r.Gated[id] = pod
		replica.Pods = append(replica.Pods, placement.Pod{ID: id, Name: pod.Name, Shape: topology.ShapeOf(pod)})
	}
	if state.absent > 0 {
		g.r.incomplete[g.keyOf(state)] = true
		g.addWanted(replica, state)
	}
}
