// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scalinggroup

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/evictions"
	"github.com/trellis-k8s/trellis/internal/provider"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/rollout"
)

// fit turns a plan into steps that the group's provider supports. It adds provider-specific fields to new pods. It recreates waiting
// replicas that were made for another provider, because existing pods cannot get these fields. While the provider is not ready, fit creates
// and replaces nothing, because a removed replica could not be recreated.
func (p *pass) fit(ctx context.Context, next rollout.Plan) steps {
	sg, replicas := p.sg, p.replicas
	if !render.Gated(sg) {
		s := stepsOf(sg, replicas, p.attempts, next)
		if router, ok := p.Providers.Get(sg.Spec.Provider).(provider.Router); ok {
			router.Route(sg, s.create)
		}
		return s
	}
	if !p.makes(ctx, sg) {
		return steps{} // the sets of the replicas can be neither created nor deleted
	}
	placer := p.Providers.Placer(sg.Spec.Provider)
	if placer == nil || !p.Providers.State(ctx, sg.Spec.Provider).Ready {
		return stepsOf(sg, replicas, p.attempts, next.OnlyScaleIn())
	}
	s := stepsOf(sg, replicas, p.attempts, next)
	s.replaceForeign(sg, placer, replicas)
	fresh := map[int32][]*corev1.Pod{}
	for _, pod := range s.create {
		ordinal, _, _ := render.ReplicaOf(pod)
		fresh[ordinal] = append(fresh[ordinal], pod)
	}
	for ordinal, pods := range fresh {
		placer.Prepare(sg, ordinal, pods, replicas[ordinal].active())
	}
	if p.Responds {
		for _, pod := range s.create {
			evictions.Register(pod)
		}
	}
	return s
}

// replaceForeign replaces waiting replicas whose pods were not prepared for the group's provider. It does not replace released replicas.
func (s *steps) replaceForeign(sg *trellisv1alpha1.ScalingGroup, placer provider.Placer, replicas map[int32]*replica) {
	for _, ordinal := range slices.Sorted(maps.Keys(replicas)) {
		r := replicas[ordinal]
		pods := r.active()
		if r.released() || len(pods) == 0 || placer.Kept(pods) {
			continue
		}
		s.replace(sg, r, "it was created for another provider, or in two parts")
	}
}

// replace replaces all steps for a replica with the removal of the replica.
func (s *steps) replace(sg *trellisv1alpha1.ScalingGroup, r *replica, why string) {
	of := func(pod *corev1.Pod) bool { o, _, _ := render.ReplicaOf(pod); return o == r.ordinal }
	s.create = slices.DeleteFunc(s.create, of)
	s.delete = slices.DeleteFunc(s.delete, func(d deletion) bool { return of(d.pod) })
	s.make = slices.DeleteFunc(s.make, func(o int32) bool { return o == r.ordinal })
	s.unmake = slices.DeleteFunc(s.unmake, func(u removal) bool { return u.ordinal == r.ordinal })
	s.remove(sg, r, why)
}

// active returns the live pods of a replica, in index order; none for a nil replica.
func (r *replica) active() []*corev1.Pod {
	if r == nil {
		return nil
	}
	pods := make([]*corev1.Pod, 0, len(r.pods))
	for _, index := range r.indexes() {
		pods = append(pods, r.pods[index])
	}
	return pods
}

// checkKept deletes a new pod if the API server has dropped fields that its provider needs. Without these fields, the pod would be
// scheduled without its gang.
func (r *Reconciler) checkKept(ctx context.Context, sg *trellisv1alpha1.ScalingGroup, pod *corev1.Pod) error {
	placer := r.Providers.Placer(sg.Spec.Provider)
	if placer == nil || !render.Gated(sg) || placer.Kept([]*corev1.Pod{pod}) {
		return nil
	}
	r.Providers.Suspect()
	if err := r.deletePod(ctx, deletion{pod: pod, why: "the API server dropped what its provider needs"}); err != nil {
		return err
	}
	return fmt.Errorf("creating pod %s: the API server dropped what the provider %s needs; the pod is deleted", pod.Name, sg.Spec.Provider)
}
