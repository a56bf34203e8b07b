// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/trellis-k8s/trellis/internal/volumes"
	"github.com/trellis-k8s/trellis/internal/whatif"
)

// addDevices adds an object that describes devices or device claims to a world.
func addDevices(c *whatif.Claims, object any) {
	switch o := object.(type) {
	case *resourcev1.ResourceSlice:
		c.Slices = replaced(c.Slices, o)
	case *resourcev1.ResourceClaim:
		c.Claims = replaced(c.Claims, o)
	case *resourcev1.ResourceClaimTemplate:
		c.Templates = replaced(c.Templates, o)
	case *resourcev1.DeviceTaintRule:
		c.Taints = replaced(c.Taints, o)
	}
}

// addVolume adds an object that describes volumes to a world.
func addVolume(v *whatif.Volumes, object any) {
	switch o := object.(type) {
	case *corev1.PersistentVolumeClaim:
		if o.Status.Phase == corev1.ClaimBound && o.Spec.VolumeName != "" { // a hand-written file may lack this annotation
			metav1.SetMetaDataAnnotation(&o.ObjectMeta, volumes.AnnBindCompleted, "yes")
		}
		v.Claims = replaced(v.Claims, o)
	case *corev1.PersistentVolume:
		v.Volumes = replaced(v.Volumes, o)
	case *storagev1.StorageClass:
		v.Classes = replaced(v.Classes, o)
	case *storagev1.CSINode:
		v.Nodes = replaced(v.Nodes, o)
	case *storagev1.CSIDriver:
		v.Drivers = replaced(v.Drivers, o)
	case *storagev1.CSIStorageCapacity:
		v.Capacities = replaced(v.Capacities, o)
	}
}
