// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scalinggroup

import (
	"context"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/assignment"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/quota"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/scheduler"
)

// This file decides which new replicas are created in place, that is, with pinned pods that do not have Trellis' gate. The controller asks
// the scheduler for a replica's place when no pod of the replica exists and the pod specs that the API server will store are known. The
// scheduler answers either that the place is recorded in the GraphPlacement, or that the replica has to be created gated. createinplace.go
// creates the pods.

// planned is a replica that is created in place.
type planned struct {
	ordinal int32
	// pods are the pods as sent to the API server, and kinds are their kinds, by index.
	pods  map[int32]*corev1.Pod
	kinds map[int32]string
	// gang and place are from the GraphPlacement. asked are the pods that the scheduler placed, by index.
	gang  string
	place assignment.Place
	asked []*corev1.Pod
}

// recordedAt sets gang and place from the GraphPlacement. It reports whether the place and the host names of the pods are of the attempt in
// the scheduler's answer. If not, the answer arrived after the GraphPlacement was read, and the group is reconciled again.
func (p *planned) recordedAt(attempt int32, recorded assignment.Replicas) (assigned bool) {
	p.gang, p.place, assigned = recorded.Assigned(p.ordinal)
	return assigned && attempt > 0 && p.place.Attempt == attempt && p.namedFor(attempt)
}

// namedFor reports whether the host names of the pods have this attempt.
func (p *planned) namedFor(attempt int32) bool {
	for _, pod := range p.pods {
		if pod.Spec.Hostname != "" && render.HostAttempt(pod) != attempt {
			return false
		}
	}
	return true
}

// place asks the scheduler for places of new replicas. It removes from the gated creates the pods of replicas that are created in place or
// that wait for an answer.
func (p *pass) place(ctx context.Context) error {
	s := &p.steps
	if p.Asks == nil || s.overLimit || s.rests {
		return nil
	}
	if !gang.InPlace(p.sg) {
		p.Asks.Forget(client.ObjectKeyFromObject(p.sg))
		return nil
	}
	for _, ordinal := range p.unseen {
		s.leaveOut(ordinal)
		s.unseen = true
	}
	fresh, err := p.placeable(ctx)
	if err != nil {
		return err
	}
	if s.more && len(p.replicas)+len(fresh) < int(render.MinAvailable(p.sg)) {
		clear(fresh) // the batch does not have all replicas that start together
	}
	wants := make([]scheduler.Want, 0, len(fresh))
	for _, ordinal := range slices.Sorted(maps.Keys(fresh)) {
		one := fresh[ordinal]
		wants = append(wants, scheduler.Want{Ordinal: ordinal, Pods: func() []*corev1.Pod { return p.asStored(p.sg, one) }})
	}
	for ordinal, answer := range p.Asks.Ask(p.sg, wants, p.unseen) {
		if answer.Gated {
			continue
		}
		one := fresh[ordinal]
		s.leaveOut(ordinal)
		s.asked = s.asked || answer.New
		if one.asked = answer.Pods; one.recordedAt(answer.Attempt, p.attempts.recorded) {
			s.inPlace = append(s.inPlace, one)
		}
	}
	slices.SortFunc(s.inPlace, func(a, b *planned) int { return int(a.ordinal - b.ordinal) })
	return nil
}

// placeable returns, by ordinal, the replicas to create that may be created in place.
func (p *pass) placeable(ctx context.Context) (map[int32]*planned, error) {
	out := map[int32]*planned{}
	others := len(p.pods.earlier) + len(p.pods.orphans)
	if len(p.steps.create) == 0 || quota.QueueOf(p.sg) != "" || others > 0 || metav1.GetControllerOfNoCopy(p.sg) == nil {
		return out, nil
	}
	if _, in, err := p.inTurn(ctx, p.sg.Namespace); in || err != nil {
		return out, err
	}
	for _, pod := range p.steps.create {
		ordinal, index, _ := render.ReplicaOf(pod)
		if p.replicas[ordinal] != nil {
			continue
		}
		if out[ordinal] == nil {
			out[ordinal] = &planned{ordinal: ordinal, pods: map[int32]*corev1.Pod{}, kinds: map[int32]string{}}
		}
		out[ordinal].pods[index] = pod
	}
	for ordinal, one := range out {
		if len(one.pods) != int(render.PodsPerReplica(p.sg)) || !p.foreseen(ctx, p.sg, one) {
			delete(out, ordinal)
		}
	}
	return out, nil
}

// foreseen reports whether the specs that the API server will store for a replica's pods are known and allow the replica to be created in
// place. It tries unknown kinds of pods with a dry run.
func (r *Reconciler) foreseen(ctx context.Context, sg *trellisv1alpha1.ScalingGroup, one *planned) bool {
	for index, pod := range one.pods {
		name := r.kinds.of(sg, pod)
		if !r.kinds.triedOut(name) {
			r.tryOut(ctx, sg, name, pod)
		}
		if one.kinds[index] = name; r.kinds.stored(name) == nil {
			return false
		}
	}
	return true
}

// asStored returns the planned pods of a replica, by index, as the API server will store them.
func (r *Reconciler) asStored(sg *trellisv1alpha1.ScalingGroup, one *planned) []*corev1.Pod {
	pods := make([]*corev1.Pod, 0, len(one.pods))
	for _, index := range slices.Sorted(maps.Keys(one.pods)) {
		sent := one.pods[index]
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: sent.Namespace, Name: sent.Name, Labels: sent.Labels, Annotations: sent.Annotations,
		}}
		if stored := r.kinds.stored(one.kinds[index]); stored != nil {
			pod.Spec = *stored
		} else { // meanwhile, the API server has stored another pod of the kind differently: createPodInPlace will detect it
			pod.Spec = sent.Spec
		}
		gang.AsPlanned(pod, sg)
		pods = append(pods, pod)
	}
	return pods
}
