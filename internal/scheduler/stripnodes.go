// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-k8s/trellis/internal/leaving"
	"github.com/trellis-k8s/trellis/internal/strip"
	"github.com/trellis-k8s/trellis/internal/volumes"
)

// StripNode is a cache transform that drops the parts of a node that Trellis does not read. The image list alone is most of a node's size.
func StripNode(obj any) (any, error) {
	node, ok := obj.(*corev1.Node)
	if !ok {
		return obj, nil
	}
	node.ManagedFields = nil
	node.Annotations = drainOf(node.Annotations)
	node.Labels = shared(node.Labels)
	node.Status.Images, node.Status.VolumesInUse, node.Status.VolumesAttached = nil, nil, nil
	node.Status.NodeInfo, node.Status.Addresses = corev1.NodeSystemInfo{}, nil
	return node, nil
}

// drainOf keeps only the annotation that requests the drain of a node.
func drainOf(all map[string]string) map[string]string {
	if _, drained := all[leaving.AnnotationDrain]; !drained {
		return nil
	}
	return map[string]string{leaving.AnnotationDrain: ""}
}

// StripVolume is a cache transform for volumes, their claims and the objects of their provisioners. It keeps the fields that determine
// where volumes can be used.
func StripVolume(obj any) (any, error) {
	switch o := obj.(type) {
	case *corev1.PersistentVolumeClaim:
		o.ManagedFields, o.Finalizers, o.OwnerReferences, o.Labels = nil, nil, nil, nil
		o.Annotations = volumeAnnotations(o.Annotations)
	case *corev1.PersistentVolume:
		o.ManagedFields, o.Finalizers, o.Annotations = nil, nil, volumeAnnotations(o.Annotations)
		if csi := o.Spec.CSI; csi != nil {
			o.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: csi.Driver, VolumeHandle: csi.VolumeHandle}
		}
	case client.Object: // the metadata of a claim
		o.SetLabels(strip.Labels(o.GetLabels()))
		return strip.Object(o)
	}
	return obj, nil
}

// StripNamespace is a cache transform for namespaces. It keeps the labels, because Trellis reads nothing else of a namespace.
func StripNamespace(obj any) (any, error) {
	if o, ok := obj.(*corev1.Namespace); ok {
		o.ManagedFields, o.Annotations, o.Finalizers, o.OwnerReferences = nil, nil, nil, nil
		o.Labels = strip.Labels(o.Labels)
	}
	return obj, nil
}

// volumeAnnotations returns the annotations that determine how a claim and its volume are bound.
func volumeAnnotations(all map[string]string) map[string]string {
	out := map[string]string{}
	for _, key := range []string{volumes.AnnBindCompleted, volumes.AnnSelectedNode, corev1.BetaStorageClassAnnotation} {
		if value, has := all[key]; has {
			out[key] = value
		}
	}
	return out
}
