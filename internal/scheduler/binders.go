// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/trellis-k8s/trellis/internal/affinity"
	"github.com/trellis-k8s/trellis/internal/claims"
	"github.com/trellis-k8s/trellis/internal/claims/allocator"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/limit"
	"github.com/trellis-k8s/trellis/internal/topology"
	"github.com/trellis-k8s/trellis/internal/volumes"
)

// +kubebuilder:rbac:groups="",resources=namespaces;persistentvolumeclaims;persistentvolumes,verbs=list;watch
// +kubebuilder:rbac:groups=storage.k8s.io,resources=csidrivers;csinodes;csistoragecapacities;storageclasses,verbs=list;watch

// bindersWithin bounds the wait for the first lists of the objects that binders read. Without the right to read them, or until they come,
// what they would say is not counted.
const bindersWithin = 10 * time.Second

// binders are what the cluster cache counts beyond what each node has.
type binders struct {
	affinity *affinity.Binder
	volumes  *volumes.Store
	claims   *claims.Store
	// allocator decides which devices claims get.
	allocator *allocator.Allocator
	// known reports whether the objects of volumes are all known, and claimed those of devices and their claims; nil: they are not.
	known, claimed func() bool
}

func newBinders() binders {
	b := binders{affinity: &affinity.Binder{Namespaces: map[string]map[string]string{}}, volumes: volumes.NewStore(),
		allocator: allocator.New()}
	b.claims = claims.NewStore(b.allocator)
	b.volumes.Partial, b.claims.Partial = true, true
	return b
}

func (b *binders) all() []topology.Binder { return []topology.Binder{b.affinity, b.volumes, b.claims} }

// refresh notes whether a claim that is not known does not exist.
func (b *binders) refresh() {
	if b.volumes.Partial {
		b.volumes.Partial = b.known == nil || !b.known()
	}
	if b.claims.Partial {
		b.claims.Partial = b.claimed == nil || !b.claimed()
	}
}

// watchBinders follows the objects that binders read. It returns once their first lists have been delivered, or did not come in time.
func (s *Scheduler) watchBinders(ctx context.Context) error {
	ofVolumes := handle(
		func(_, now client.Object) { s.queue.wakeUp(s.ledger.volumeSet(now)) },
		func(gone client.Object) { s.queue.wakeUp(s.ledger.volumeGone(gone)) },
	)
	namespace := handle(
		func(_, now *corev1.Namespace) { s.queue.wakeUp(s.ledger.namespaceSet(now)) },
		s.ledger.namespaceGone,
	)
	kinds := []struct {
		object  client.Object
		handler toolscache.ResourceEventHandler
	}{
		{&corev1.Namespace{}, namespace},
		{&corev1.PersistentVolumeClaim{}, ofVolumes}, {&corev1.PersistentVolume{}, ofVolumes}, {&storagev1.StorageClass{}, ofVolumes},
		{&storagev1.CSINode{}, ofVolumes}, {&storagev1.CSIDriver{}, ofVolumes}, {&storagev1.CSIStorageCapacity{}, ofVolumes},
	}
	var synced []toolscache.InformerSynced
	for _, kind := range kinds {
		informer, err := s.cache.GetInformer(ctx, kind.object, cache.BlockUntilSynced(false))
		if err != nil {
			return fmt.Errorf("watching %T: %w", kind.object, err)
		}
		registration, err := informer.AddEventHandler(kind.handler)
		if err != nil {
			return fmt.Errorf("watching %T: %w", kind.object, err)
		}
		synced = append(synced, registration.HasSynced)
	}
	s.ledger.bindersKnown(func() bool {
		return !slices.ContainsFunc(synced, func(synced toolscache.InformerSynced) bool { return !synced() })
	})
	first, enough := context.WithTimeout(ctx, bindersWithin)
	defer enough()
	if !toolscache.WaitForCacheSync(first.Done(), synced...) && ctx.Err() == nil {
		log.FromContext(ctx).Info("namespaces, volumes and their claims cannot be read yet; what they say of pods is not counted")
	}
	return nil
}

// StripVolume is a cache transform: of volumes and their claims, and of what provides them, it keeps what tells where they can be used.
func StripVolume(obj any) (any, error) {
	switch o := obj.(type) {
	case *corev1.PersistentVolumeClaim:
		o.ManagedFields, o.Finalizers, o.Annotations = nil, nil, volumeAnnotations(o.Annotations)
	case *corev1.PersistentVolume:
		o.ManagedFields, o.Finalizers, o.Annotations = nil, nil, volumeAnnotations(o.Annotations)
		if csi := o.Spec.CSI; csi != nil {
			o.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: csi.Driver, VolumeHandle: csi.VolumeHandle}
		}
	case client.Object:
		o.SetManagedFields(nil)
	}
	return obj, nil
}

// volumeAnnotations are those that say how a claim and its volume are bound.
func volumeAnnotations(all map[string]string) map[string]string {
	out := map[string]string{}
	for _, key := range []string{volumes.AnnBindCompleted, volumes.AnnSelectedNode, corev1.BetaStorageClassAnnotation} {
		if value, has := all[key]; has {
			out[key] = value
		}
	}
	return out
}

// noteUncounted adds to a result what is not counted of the devices and the volumes that pods of a graph ask for.
func (l *ledger) noteUncounted(o gang.Observation, r *gang.Result) {
	if l.binders.claims.Unknown() != "" {
		r.Uncounted = gang.UncountedOf(l.cluster, o)
	}
	r.UncountedClaims = gang.WhyUncounted(o, l.binders.claims.Uncounted)
	r.UncountedVolumes = gang.WhyUncounted(o, func(pod *corev1.Pod) string {
		list := l.binders.volumes.Unknown(pod)
		return limit.Join(list, len(list), maxUnknown, ", ")
	})
}

// maxUnknown is how many objects that are not known a message names.
const maxUnknown = 3
