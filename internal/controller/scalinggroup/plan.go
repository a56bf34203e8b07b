// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scalinggroup

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/controller/creationturns"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/rollout"
)

// batch is how many pods, or replicas that a maker makes, one reconcile makes at most.
const batch = 512

// steps are what one reconcile has to do. Every pod to delete is named with a note why.
type steps struct {
	create []*corev1.Pod
	delete []deletion
	// make and unmake are replicas whose pods a maker makes, by the object it makes them from.
	make   []int32
	unmake []removal
	// inPlace are replicas that are created in their places. asked: replicas were asked for places just now.
	inPlace []*planned
	asked   bool
	// unseen: pods exist that the cache does not show.
	unseen bool
	// overLimit: the groups of the graph ask for more pods than it may have, until they are bounded. Nothing is created then.
	overLimit bool
	// rests: a create was refused just now, and nothing is created before the next try. What was asked for stays.
	rests bool
	// more: the plan wants more than one batch.
	more bool
	// inTurn: gangs are created in turn. keyOf names those of replicas, and decisions are about them.
	inTurn    bool
	keyOf     func(ordinal int32) creationturns.Key
	decisions map[creationturns.Key]creationturns.Decision
	// taken is why pods were left out whose names other pods have.
	taken error
}

// onlyMake reports whether there is something to make and nothing to take down.
func (s *steps) onlyMake() bool {
	return (s.asked || len(s.create)+len(s.make)+len(s.inPlace) > 0) && len(s.delete)+len(s.unmake) == 0
}

// removal is a replica to take down with what its pods come from.
type removal struct {
	*replica
	why string
}

type deletion struct {
	pod *corev1.Pod
	why string
	// force: no kubelet is there to confirm the end of the pod.
	force bool
}

// plan asks the rollout for the next step. It is level-based: the same pods and recorded ordinals always give the same step.
func plan(sg *trellisv1alpha1.ScalingGroup, replicas map[int32]*replica, recorded ...int) rollout.Plan {
	return rollout.For(sg).Next(summaries(sg, replicas), recorded, batch+1)
}

func summaries(sg *trellisv1alpha1.ScalingGroup, replicas map[int32]*replica) []rollout.Replica {
	out := make([]rollout.Replica, 0, len(replicas))
	for _, ordinal := range slices.Sorted(maps.Keys(replicas)) {
		r := replicas[ordinal]
		state, why := r.state()
		out = append(out, rollout.Replica{
			Ordinal: int(ordinal), State: state, Outdated: r.outdated, Generation: r.generation, Created: r.created(), Why: why,
			NoQuota: r.noQuota, KeepsQuota: r.keepsQuota, InSet: r.set != nil, Excess: r.excess, Neighbours: r.neighbours,
			Unplaceable: state == rollout.Waiting && r.outdated && !r.released() &&
				!gang.CanStay(sg, slices.Collect(maps.Values(r.pods)), false),
		})
	}
	return out
}

// stepsOf turns the plan into pods to create, at most a batch of them, and to delete.
func stepsOf(sg *trellisv1alpha1.ScalingGroup, replicas map[int32]*replica, attempts attempts, p rollout.Plan) steps {
	var s steps
	for _, gone := range p.Remove {
		s.remove(sg, replicas[int32(gone.Ordinal)], gone.Why)
	}
	if render.Oversized(sg) {
		return s
	}
	build := render.NewBuilder(sg)
	for _, ordinal := range p.Make {
		r := replicas[int32(ordinal)]
		if render.InSets(sg) {
			if r == nil || r.set == nil { // the rest comes from the set
				s.make = append(s.make, int32(ordinal))
			}
			if s.more = len(s.make) > batch; s.more {
				s.make = s.make[:batch]
				return s
			}
			continue
		}
		for index := range render.PodsPerReplica(sg) {
			if r != nil && r.pods[index] != nil {
				continue
			}
			if s.more = len(s.create) == batch; s.more {
				return s
			}
			s.create = append(s.create, build.PodOfAttempt(int32(ordinal), index, r.hostAttempt(attempts.next(int32(ordinal)))))
		}
	}
	return s
}

// remove deletes every pod of the replica that is not on its way already, or what they come from.
func (s *steps) remove(sg *trellisv1alpha1.ScalingGroup, r *replica, why string) {
	if render.InSets(sg) {
		s.unmake = append(s.unmake, removal{r, why})
		return
	}
	s.removePods(r, why)
}

func (s *steps) removePods(r *replica, why string) {
	for _, pod := range r.lost {
		s.delete = append(s.delete, deletion{pod: pod, why: why, force: pod.Spec.NodeName != "" && !ended(pod)})
	}
	for _, index := range r.indexes() {
		s.delete = append(s.delete, deletion{pod: r.pods[index], why: why})
	}
}
