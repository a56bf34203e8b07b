// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scalinggroup

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/newpod"
)

func (r *Reconciler) deletePod(ctx context.Context, d deletion) error {
	log.FromContext(ctx).Info("deleting a pod", "pod", d.pod.Name, "why", d.why)
	options := []client.DeleteOption{client.Preconditions{UID: &d.pod.UID}}
	if d.force {
		options = append(options, client.GracePeriodSeconds(0))
	}
	err := r.Client.Delete(ctx, d.pod, options...)
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("deleting pod %s: %w", d.pod.Name, err)
	}
	return nil
}

// createPod creates a pod. An existing pod of the group with the same name is the same pod, which the cache does not show yet.
func (r *Reconciler) createPod(ctx context.Context, sg *trellisv1alpha1.ScalingGroup, pod *corev1.Pod) error {
	pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(sg, trellisv1alpha1.GroupVersion.WithKind("ScalingGroup"))}
	err := r.Client.Create(ctx, pod)
	if err == nil {
		r.learn(sg, pod)
		return r.checkKept(ctx, sg, pod)
	}
	if !apierrors.IsAlreadyExists(err) {
		return wrapped(r.withLimits(ctx, pod, err), "creating pod %s", pod.Name)
	}
	return r.takenName(ctx, sg, pod)
}

// withLimits adds to the API server's error the names of the LimitRanges that refuse the pod, because the error does not contain these
// names.
func (r *Reconciler) withLimits(ctx context.Context, pod *corev1.Pod, err error) error {
	if !apierrors.IsForbidden(err) {
		return err
	}
	limits := &corev1.LimitRangeList{}
	if unread := r.Live.List(ctx, limits, client.InNamespace(pod.Namespace)); unread != nil {
		log.FromContext(ctx).Error(unread, "listing the LimitRanges that may refuse a pod", "pod", pod.Name)
		return err
	}
	admission := newpod.Objects{}
	for i := range limits.Items {
		admission.LimitRanges = append(admission.LimitRanges, &limits.Items[i])
	}
	names := admission.RefusedBy(pod)
	if len(names) == 0 {
		return err
	}
	return fmt.Errorf("%w (LimitRange %s)", err, strings.Join(names, ", "))
}

// takenName reads the existing pod with the name of a pod that is to be created. It adopts an orphan, deletes a pod of an earlier group,
// and returns an error for a pod of another owner.
func (r *Reconciler) takenName(ctx context.Context, sg *trellisv1alpha1.ScalingGroup, pod *corev1.Pod) error {
	live := &corev1.Pod{}
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(pod), live); err != nil {
		return wrapped(client.IgnoreNotFound(err), "reading pod %s", pod.Name)
	}
	switch {
	case metav1.IsControlledBy(live, sg), isOrphan(live, sg) && live.DeletionTimestamp != nil: // its events trigger the next reconcile
		return nil
	case isOrphan(live, sg):
		_, err := r.adopt(ctx, sg, []*corev1.Pod{live})
		return err
	case isLeftover(live, sg.Name, sg.UID): // not in the cache yet; its end triggers the next reconcile
		return r.deleteLeftovers(ctx, client.ObjectKeyFromObject(sg), sg.UID, []*corev1.Pod{live})
	}
	return fmt.Errorf("creating pod %s: a pod of this name exists and does not belong to this group; it is left unchanged", pod.Name)
}

func wrapped(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), err)
}
