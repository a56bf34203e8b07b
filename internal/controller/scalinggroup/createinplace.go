// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scalinggroup

import (
	"cmp"
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
	"github.com/trellis-k8s/trellis/internal/topology"
)

// createInPlace creates replicas in place. If a create fails, or the API server stores a pod that differs from the planned pod, the pod's
// entire gang is evicted and created gated.
func (p *pass) createInPlace(ctx context.Context) error {
	var todo []func() error
	for _, one := range p.steps.inPlace {
		for _, index := range slices.Sorted(maps.Keys(one.pods)) {
			todo = append(todo, func() error {
				if !p.Asks.Begin(p.sg, one.ordinal, one.place.Attempt) { // its gang was refused meanwhile
					return nil
				}
				created, err := p.createPodInPlace(ctx, one, index)
				if !created {
					members, base := p.attempts.recorded.Members(one.gang)
					p.Asks.Refuse(p.sg, one.gang, members, base)
				}
				return err
			})
		}
	}
	return inParallel(todo)
}

// errTaken means that another pod has the name of a planned pod.
var errTaken = errors.New("another pod has its name")

// errEarlier means that a pod of an earlier attempt has the name of a planned pod. The earlier pod is deleted, and the create is retried.
var errEarlier = errors.New("a pod of an earlier attempt has its name, and is deleted")

// createPodInPlace creates one pod in place, and reports whether its gang can still be created as planned.
func (p *pass) createPodInPlace(ctx context.Context, one *planned, index int32) (bool, error) {
	sg, pod := p.sg, one.pods[index]
	pin, recorded := gang.RecordedPin(sg, one.gang, one.place, index)
	pinner, can := p.Providers.Placer(sg.Spec.Provider).(provider.Pinner)
	if !can || !recorded {
		return false, fmt.Errorf("creating pod %s in place: provider %s cannot, or its host is not recorded", pod.Name, sg.Spec.Provider)
	}
	pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(sg, trellisv1alpha1.GroupVersion.WithKind("ScalingGroup"))}
	pinner.Pin(pod, pin)
	expected := expectedOf(pinner, one.asked[index], pin)
	err := p.Client.Create(ctx, pod)
	if apierrors.IsAlreadyExists(err) {
		if err = p.takeOwn(ctx, pod); pod.Spec.NodeName == pin.Node { // it has been bound meanwhile
			expected.Spec.NodeName = pin.Node
		}
	}
	if errors.Is(err, errTaken) {
		log.FromContext(ctx).Info("a pod of the name of one that is to be created in place exists; its gang is created gated",
			"pod", pod.Name, "gang", one.gang)
		return false, nil
	}
	if err != nil {
		return errors.Is(err, errEarlier), wrapped(p.withLimits(ctx, pod, err), "creating pod %s in place", pod.Name)
	}
	if why := differs(expected, pod); why != "" {
		log.FromContext(ctx).Info("the API server stored another pod than was planned; its gang is created gated",
			"pod", pod.Name, "gang", one.gang, "why", why)
		p.kinds.differ(one.kinds[index])
		return false, nil
	}
	return true, nil
}

// takeOwn reads the existing pod with the name of a planned pod. The existing pod is the planned pod itself if the response to an earlier
// create was lost. takeOwn deletes the existing pod if it is of an earlier attempt.
func (r *Reconciler) takeOwn(ctx context.Context, pod *corev1.Pod) error {
	live := &corev1.Pod{}
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(pod), live); err != nil {
		return wrapped(err, "reading pod %s", pod.Name)
	}
	owner, was, attempt := metav1.GetControllerOfNoCopy(live), render.AttemptOf(live), render.AttemptOf(pod)
	switch {
	case live.DeletionTimestamp != nil || owner == nil || owner.UID != metav1.GetControllerOfNoCopy(pod).UID:
		return errTaken
	case was > 0 && was < attempt:
		return cmp.Or(r.deletePod(ctx, deletion{pod: live, why: superseded}), errEarlier)
	case was != attempt || live.Annotations[render.AnnotationGang] != pod.Annotations[render.AnnotationGang]:
		return errTaken
	}
	*pod = *live
	return nil
}

// expectedOf returns the pod that the API server is expected to store for a planned pod.
func expectedOf(pinner provider.Pinner, pod *corev1.Pod, pin gang.Pin) *corev1.Pod {
	expected := pod.DeepCopy()
	pinner.Pin(expected, pin)
	return expected
}

// differs describes how a stored pod differs from the expected pod; "" if they do not differ.
func differs(expected, stored *corev1.Pod) string {
	switch {
	case len(stored.Spec.SchedulingGates) > 0:
		return fmt.Sprintf("it has the scheduling gate %q", stored.Spec.SchedulingGates[0].Name)
	case stored.Spec.NodeName != expected.Spec.NodeName:
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
