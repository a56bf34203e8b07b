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

// batch is the maximum number of pods, or of sets, that one reconcile creates.
const batch = 512

// steps are the writes of one reconcile. Each deletion has a reason.
type steps struct {
	create []*corev1.Pod
	delete []deletion
	// If a maker creates the pods, make has the replicas that need a new set, and unmake has the replicas whose sets are to be deleted.
	make   []int32
	unmake []removal
	// inPlace are the replicas to create in place. asked: the controller has just asked the scheduler for places.
	inPlace []*planned
	asked   bool
	// unseen: pods exist that the cache does not show.
	unseen bool
	// overLimit: the groups of the graph request more pods than the graph's limit. Nothing is created until the graph controller has
	// bounded the groups.
	overLimit bool
	// rests: the API server has refused a create recently. Nothing is created until the delay is over, but the scheduler keeps the places
	// of the pods that wait for creation.
	rests bool
	// more: the plan creates more than one batch.
	more bool
	// inTurn: gangs are created in turn. keyOf returns the key of a replica's gang, and decisions has the decision about each gang.
	inTurn    bool
	keyOf     func(ordinal int32) creationturns.Key
	decisions map[creationturns.Key]creationturns.Decision
	// taken is the error about pods that are not created because existing pods have their names.
	taken error
}

// onlyMake reports whether the steps create replicas or ask for places, and delete nothing.
func (s *steps) onlyMake() bool {
	return (s.asked || len(s.create)+len(s.make)+len(s.inPlace) > 0) && len(s.delete)+len(s.unmake) == 0
}

// removal is a replica to remove together with its set.
type removal struct {
	*replica
	why string
}

type deletion struct {
	pod *corev1.Pod
	why string
	// force: the node of the pod is gone, so no kubelet confirms the pod's termination.
	force bool
}

// plan returns the next step of the rollout. It is level-based: the same pods and recorded ordinals always give the same step.
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

// stepsOf turns the plan into the pods or sets to delete and to create. It creates at most one batch.
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
			if r == nil || r.set == nil { // an existing set creates the missing pods
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

// remove adds the removal of a replica to the steps: the removal of its set if another controller creates the pods, or else the removal of
// its live and lost pods.
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
