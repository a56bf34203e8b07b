// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package placer releases and evicts pods with the Kubernetes API alone; see package gates.
package placer

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/provider"
	"github.com/trellis-k8s/trellis/internal/provider/gates"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
	"github.com/trellis-k8s/trellis/internal/render"
)

// Placer is the provider Gates.
type Placer struct {
	// Client writes.
	Client client.Client
	// Live reads from the API server.
	Live client.Reader
}

var (
	_ provider.Placer = Placer{}
	_ provider.Pinner = Placer{}
)

// Name implements provider.Provider.
func (Placer) Name() string { return specs.Gates.Name }

// Probe implements provider.Provider: every version of Kubernetes that Trellis supports has scheduling gates.
func (Placer) Probe(context.Context) (provider.State, error) { return provider.Ready(), nil }

// Unsuited implements provider.Provider.
func (Placer) Unsuited([]*trellisv1alpha1.ScalingGroup) string { return "" }

// Watches implements provider.Provider.
func (Placer) Watches() []provider.Watch { return nil }

// Prepare implements provider.Placer: it does nothing, because the gate is all that a pod needs.
func (Placer) Prepare(*trellisv1alpha1.ScalingGroup, int32, []*corev1.Pod, []*corev1.Pod) {}

// Pin implements provider.Pinner.
func (Placer) Pin(pod *corev1.Pod, pin gang.Pin) { gates.Open(pod, pin) }

// Kept implements provider.Placer: it returns false for pods of another provider, which would wait for objects that only that provider
// makes.
func (Placer) Kept(pods []*corev1.Pod) bool {
	return gates.Made(pods)
}

// Form implements provider.Placer: it does nothing, because the pins alone keep the gang together.
func (Placer) Form(context.Context, gang.Members) error { return nil }

// Objections implements provider.Placer: it returns none. Trellis' own scheduler soon requeues a gang that cannot be bound, and reports the
// gang then.
func (Placer) Objections(context.Context, client.Reader, []*corev1.Pod, []*corev1.Pod) map[types.UID]gang.Objection {
	return nil
}

// Release adds the pins and removes Trellis' gate in one patch, which contains the pod's resourceVersion. On a conflict, Release reads the
// pod again and makes a new patch. The patch does not change the pod's managedFields, so they still show who wrote each field.
func (p Placer) Release(ctx context.Context, pod *corev1.Pod, pin gang.Pin) error {
	current := pod
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		if !render.GateClosed(current) {
			if !gates.PinnedTo(current, pin) {
				return provider.ErrElsewhere
			}
			return nil
		}
		err := p.release(ctx, current, pin)
		if apierrors.IsConflict(err) {
			live, liveErr := p.reread(ctx, pod)
			if liveErr != nil {
				return liveErr
			}
			current = live
		}
		return err
	})
	if apierrors.IsNotFound(err) {
		return provider.ErrPodGone
	}
	if err != nil {
		return fmt.Errorf("releasing pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}

func (p Placer) reread(ctx context.Context, pod *corev1.Pod) (*corev1.Pod, error) {
	live := &corev1.Pod{}
	if err := p.Live.Get(ctx, client.ObjectKeyFromObject(pod), live); err != nil {
		return nil, err
	}
	if live.UID != pod.UID || live.DeletionTimestamp != nil {
		return nil, provider.ErrPodGone
	}
	return live, nil
}

// Evict deletes the pod with its UID as a precondition. If the pod is not bound, its resourceVersion is a precondition too, so that Evict
// does not delete a pod that was bound in the meantime.
func (p Placer) Evict(ctx context.Context, pod *corev1.Pod) error {
	only := client.Preconditions{UID: &pod.UID}
	if pod.Spec.NodeName == "" && pod.ResourceVersion != "" {
		only.ResourceVersion = &pod.ResourceVersion
	}
	err := p.Client.Delete(ctx, pod, only)
	if apierrors.IsConflict(err) && only.ResourceVersion != nil {
		return provider.ErrPodChanged
	}
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("evicting pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}

func (p Placer) release(ctx context.Context, pod *corev1.Pod, pin gang.Pin) error {
	patch, err := gates.Patch(pod, pin)
	if err != nil {
		return err
	}
	answer := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}}
	return p.Client.Patch(ctx, answer, client.RawPatch(types.StrategicMergePatchType, patch))
}
