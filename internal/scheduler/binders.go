// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-k8s/trellis/internal/affinity"
	"github.com/trellis-k8s/trellis/internal/claims"
	"github.com/trellis-k8s/trellis/internal/claims/allocator"
	"github.com/trellis-k8s/trellis/internal/topology"
	"github.com/trellis-k8s/trellis/internal/volumes"
)

// +kubebuilder:rbac:groups="",resources=namespaces;persistentvolumeclaims;persistentvolumes,verbs=list;watch
// +kubebuilder:rbac:groups=storage.k8s.io,resources=csidrivers;csinodes;csistoragecapacities;storageclasses,verbs=list;watch

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
