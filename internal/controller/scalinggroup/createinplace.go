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

// createInPlace creates replicas in place. One pod of each gang is created first and alone: its creator decides where the
// gang goes. Another leader with a plan of its own finds it there and leaves the gang alone. A group without that pod creates its own only
// after a read past the cache has shown it. When one create of a gang fails, or the API server stores something else than was planned,
// all of the gang is deleted, and it is created gated. A failed read is not a refusal: it does not delay further creates, since a replica
// that has to wait is not asked for, and loses its place.
func (r *Reconciler) createInPlace(ctx context.Context, sg *trellisv1alpha1.ScalingGroup, all []*planned) (refused, unread error) {
	var first, rest []func() error
	var begun []*planned
	for _, one := range all {
		if index, has := one.first(); has && r.Creations.Begin(one.offer) {
			begun = append(begun, one)
			first = append(first, func() error { return r.createReplicaInPlace(ctx, sg, one, index) })
		}
	}
	refused = inParallel(first)
	for _, one := range all {
		leads, has := one.first()
		if !has {
			follows, err := r.follows(ctx, one.offer)
			unread = errors.Join(unread, err)
			if !follows || !r.Creations.Begin(one.offer) {
				continue
			}
			begun = append(begun, one)
		}
		for _, index := range slices.Sorted(maps.Keys(one.pods)) {
			if !has || index != leads {
				rest = append(rest, func() error { return r.createReplicaInPlace(ctx, sg, one, index) })
			}
		}
	}
	refused = errors.Join(refused, inParallel(rest))
	for _, one := range begun {
		r.Creations.Made(one.offer)
	}
	return refused, unread
}

// follows reads past the cache whether the pod that is created before all others of a gang is there as this operator has created it.
func (r *Reconciler) follows(ctx context.Context, offer *scheduler.Offer) (bool, error) {
	uid := r.Creations.First(offer)
	if uid == "" {
		return false, nil // its creation brings the next reconcile
	}
	live := &corev1.Pod{}
	err := r.Live.Get(ctx, offer.First, live)
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("reading pod %s, which the rest of its gang follows: %w", offer.First.Name, err)
	}
	if err == nil && live.UID == uid && live.DeletionTimestamp == nil && live.Annotations[render.AnnotationGang] == offer.Gang {
		return true, nil
	}
	log.FromContext(ctx).Info("the first pod of a gang is gone; the gang is recreated", "pod", offer.First.Name, "gang", offer.Gang)
	return false, r.endGang(ctx, offer)
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
	metav1.SetMetaDataAnnotation(&pod.ObjectMeta, render.AnnotationCreation, one.offer.Creation)
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

// takeOwn reads the pod that has the name of one that was to be created: it is the same when the answer to an earlier create was lost.
func (r *Reconciler) takeOwn(ctx context.Context, pod *corev1.Pod) error {
	live := &corev1.Pod{}
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(pod), live); err != nil {
		return wrapped(err, "reading pod %s", pod.Name)
	}
	if live.DeletionTimestamp != nil || live.Annotations[render.AnnotationCreation] != pod.Annotations[render.AnnotationCreation] ||
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
