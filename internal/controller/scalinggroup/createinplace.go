// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scalinggroup

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/provider"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/scheduler"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// createInPlace creates replicas in place. When one create of a gang fails, or the API server stores something else than was planned, all
// of the gang is deleted, and it is created gated.
func (r *Reconciler) createInPlace(ctx context.Context, sg *trellisv1alpha1.ScalingGroup, all []*planned) error {
	var todo []func() error
	var begun []*planned
	for _, one := range all {
		if !r.Creations.Begin(one.offer) {
			continue
		}
		begun = append(begun, one)
		for _, index := range slices.Sorted(maps.Keys(one.pods)) {
			todo = append(todo, func() error { return r.createReplicaInPlace(ctx, sg, one, index) })
		}
	}
	refused := inParallel(todo)
	for _, one := range begun {
		r.Creations.Made(one.offer)
	}
	return refused
}

// createReplicaInPlace creates one pod in place, unless its gang has ended meanwhile. When that fails, the gang ends.
func (r *Reconciler) createReplicaInPlace(ctx context.Context, sg *trellisv1alpha1.ScalingGroup, one *planned, index int32) error {
	if !r.Creations.Stands(one.offer) {
		return nil
	}
	if err := r.createPodInPlace(ctx, sg, one, index); err != nil {
		return errors.Join(err, r.endGang(ctx, one.offer))
	}
	return nil
}

// errTaken means that another pod has the name of one that is to be created.
var errTaken = errors.New("another pod has its name")

func (r *Reconciler) createPodInPlace(ctx context.Context, sg *trellisv1alpha1.ScalingGroup, one *planned, index int32) error {
	release, pod := one.offer.Releases[index], one.pods[index]
	pinner, can := r.Providers.Placer(sg.Spec.Provider).(provider.Pinner)
	if !can || release.Pod == nil {
		return fmt.Errorf("creating pod %s in place: provider %s cannot", pod.Name, sg.Spec.Provider)
	}
	pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(sg, trellisv1alpha1.GroupVersion.WithKind("ScalingGroup"))}
	release.Pin.Attempt = one.offer.Attempt
	pinner.Pin(pod, release.Pin)
	expected := expectedOf(pinner, release)
	err := r.Client.Create(ctx, pod)
	if apierrors.IsAlreadyExists(err) {
		err = r.takeOwn(ctx, pod)
	}
	if errors.Is(err, errTaken) {
		log.FromContext(ctx).Info("a pod of the name of one that is to be created in place exists; its gang is left alone",
			"pod", pod.Name, "gang", one.offer.Gang)
		return r.endGang(ctx, one.offer)
	}
	if err != nil {
		return wrapped(err, "creating pod %s in place", pod.Name)
	}
	if !r.Creations.Created(one.offer, pod) {
		return r.deletePod(ctx, deletion{pod: pod, why: withoutRest})
	}
	if why := differs(expected, pod); why != "" {
		log.FromContext(ctx).Info("the API server stored another pod than was planned; its gang is created gated",
			"pod", pod.Name, "gang", one.offer.Gang, "why", why)
		r.kinds.differ(one.kinds[index])
		return r.endGang(ctx, one.offer)
	}
	return nil
}

// takeOwn reads the pod that has the name of one that was to be created. It is the same pod when the answer to an earlier create was lost.
func (r *Reconciler) takeOwn(ctx context.Context, pod *corev1.Pod) error {
	live := &corev1.Pod{}
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(pod), live); err != nil {
		return wrapped(err, "reading pod %s", pod.Name)
	}
	if live.DeletionTimestamp != nil || live.Annotations[render.AnnotationGang] != pod.Annotations[render.AnnotationGang] ||
		metav1.GetControllerOfNoCopy(live) == nil || metav1.GetControllerOfNoCopy(live).UID != metav1.GetControllerOfNoCopy(pod).UID {
		return errTaken
	}
	*pod = *live
	return nil
}

// endGang deletes what was created of a gang, and has it created gated from now on.
func (r *Reconciler) endGang(ctx context.Context, offer *scheduler.Offer) error {
	failures := []error{}
	for _, pod := range r.Creations.Fail(offer) {
		failures = append(failures, r.deletePod(ctx, deletion{pod: pod, why: withoutRest}))
	}
	return errors.Join(failures...)
}

// expectedOf is what the API server is expected to store of a pod that is created in place.
func expectedOf(pinner provider.Pinner, release gang.Release) *corev1.Pod {
	expected := release.Pod.DeepCopy()
	pinner.Pin(expected, release.Pin)
	return expected
}

// differs describes what of a stored pod differs from what it was planned by; "" when nothing does.
func differs(expected, stored *corev1.Pod) string {
	switch {
	case len(stored.Spec.SchedulingGates) > 0:
		return fmt.Sprintf("it has the scheduling gate %q", stored.Spec.SchedulingGates[0].Name)
	case stored.Spec.NodeName != "":
		return "it names its node"
	case stored.Spec.SchedulerName != expected.Spec.SchedulerName:
		return fmt.Sprintf("its scheduler is %q instead of %q", stored.Spec.SchedulerName, expected.Spec.SchedulerName)
	case stored.Annotations[render.AnnotationGang] != expected.Annotations[render.AnnotationGang]:
		return "it lacks the name of its gang"
	case topology.PriorityOf(stored) != topology.PriorityOf(expected):
		return fmt.Sprintf("its priority is %d instead of %d", topology.PriorityOf(stored), topology.PriorityOf(expected))
	case topology.ShapeOf(stored).Key() != topology.ShapeOf(expected).Key():
		return "it asks for something else, or for other nodes"
	}
	return ""
}
