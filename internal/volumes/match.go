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

// Constants of k8s.io/component-helpers/storage/volume. They are copied, because that package imports a client.
const (
	// AnnBindCompleted marks a claim that is bound to its volume. AnnSelectedNode names the node for which a claim's volume is provisioned.
	AnnBindCompleted = "pv.kubernetes.io/bind-completed"
	AnnSelectedNode  = "volume.kubernetes.io/selected-node"
	// NoProvisioner is the provisioner of classes whose volumes must already exist.
	NoProvisioner = "kubernetes.io/no-provisioner"
	// isDefaultClass marks the default storage class, which applies to claims that name no class.
	isDefaultClass = "storageclass.kubernetes.io/is-default-class"
)

// classOfClaim returns the storage class of a claim, classOfVolume the storage class of a volume; "" for none.
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

// waits reports whether a class provisions a volume only once a pod that uses it has a node.
func waits(class *storagev1.StorageClass) bool {
	return class != nil && class.VolumeBindingMode != nil && *class.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer
}

// isFor reports whether a volume is bound to a claim or reserved for it.
func isFor(v *corev1.PersistentVolume, c *corev1.PersistentVolumeClaim) bool {
	ref := v.Spec.ClaimRef
	return ref != nil && ref.Namespace == c.Namespace && ref.Name == c.Name && (ref.UID == "" || ref.UID == c.UID)
}

// offers reports whether a volume has the properties that a claim requests.
func offers(v *corev1.PersistentVolume, c *corev1.PersistentVolumeClaim) bool {
	size, filesystem := v.Spec.Capacity[corev1.ResourceStorage], corev1.PersistentVolumeFilesystem
	return size.Cmp(c.Spec.Resources.Requests[corev1.ResourceStorage]) >= 0 && v.DeletionTimestamp == nil &&
		ptr.Deref(v.Spec.VolumeMode, filesystem) == ptr.Deref(c.Spec.VolumeMode, filesystem) &&
		ptr.Deref(v.Spec.VolumeAttributesClassName, "") == ptr.Deref(c.Spec.VolumeAttributesClassName, "")
}

// suits reports whether a free volume may be bound to a claim.
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
