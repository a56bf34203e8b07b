// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package volumes

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"
)

// The words of k8s.io/component-helpers/storage/volume, which reaches a client.
const (
	// AnnBindCompleted is on a claim that is bound to its volume, and AnnSelectedNode names the node for which its volume is made.
	AnnBindCompleted = "pv.kubernetes.io/bind-completed"
	AnnSelectedNode  = "volume.kubernetes.io/selected-node"
	// NoProvisioner is that of classes whose volumes have to be there.
	NoProvisioner = "kubernetes.io/no-provisioner"
	// isDefaultClass marks the class of claims that name none.
	isDefaultClass = "storageclass.kubernetes.io/is-default-class"
)

// classOfClaim is the class of a claim, and classOfVolume that of a volume; "" for none.
func classOfClaim(c *corev1.PersistentVolumeClaim) string {
	if class, has := c.Annotations[corev1.BetaStorageClassAnnotation]; has {
		return class
	}
	return ptr.Deref(c.Spec.StorageClassName, "")
}

func classOfVolume(v *corev1.PersistentVolume) string {
	if class, has := v.Annotations[corev1.BetaStorageClassAnnotation]; has {
		return class
	}
	return v.Spec.StorageClassName
}

// waits reports whether a class provides volumes for pods that have a node.
func waits(class *storagev1.StorageClass) bool {
	return class != nil && class.VolumeBindingMode != nil && *class.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer
}

// isFor reports whether a volume is bound to a claim, or kept for it.
func isFor(v *corev1.PersistentVolume, c *corev1.PersistentVolumeClaim) bool {
	ref := v.Spec.ClaimRef
	return ref != nil && ref.Namespace == c.Namespace && ref.Name == c.Name && (ref.UID == "" || ref.UID == c.UID)
}

// offers reports whether a volume is what a claim asks for.
func offers(v *corev1.PersistentVolume, c *corev1.PersistentVolumeClaim) bool {
	size, filesystem := v.Spec.Capacity[corev1.ResourceStorage], corev1.PersistentVolumeFilesystem
	return size.Cmp(c.Spec.Resources.Requests[corev1.ResourceStorage]) >= 0 && v.DeletionTimestamp == nil &&
		ptr.Deref(v.Spec.VolumeMode, filesystem) == ptr.Deref(c.Spec.VolumeMode, filesystem) &&
		ptr.Deref(v.Spec.VolumeAttributesClassName, "") == ptr.Deref(c.Spec.VolumeAttributesClassName, "")
}

// suits reports whether a volume that nothing has may be bound to a claim.
func suits(v *corev1.PersistentVolume, c *corev1.PersistentVolumeClaim) bool {
	if v.Status.Phase != corev1.VolumeAvailable || classOfVolume(v) != classOfClaim(c) {
		return false
	}
	if c.Spec.Selector != nil {
		selector, err := metav1.LabelSelectorAsSelector(c.Spec.Selector)
		if err != nil || !selector.Matches(labels.Set(v.Labels)) {
			return false
		}
	}
	return !slices.ContainsFunc(c.Spec.AccessModes, func(mode corev1.PersistentVolumeAccessMode) bool {
		return !slices.Contains(v.Spec.AccessModes, mode)
	})
}
