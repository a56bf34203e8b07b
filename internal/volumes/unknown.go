// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package volumes

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Unknown lists the objects to which a pod's volume claims refer and that the store does not contain; nil for none. Some rules are not
// applied because these objects are unknown.
func (s *Store) Unknown(pod *corev1.Pod) (list []string) {
	if !s.Partial {
		return nil
	}
	for i := range pod.Spec.Volumes {
		switch v := &pod.Spec.Volumes[i]; {
		case v.PersistentVolumeClaim != nil:
			name := types.NamespacedName{Namespace: pod.Namespace, Name: v.PersistentVolumeClaim.ClaimName}
			if o := s.claims[name]; o != nil {
				list = append(list, s.unknownOf(o)...)
			} else if !s.coming[name] {
				list = append(list, "claim "+name.Name)
			}
		case v.Ephemeral != nil && v.Ephemeral.VolumeClaimTemplate != nil:
			list = append(list, s.unknownOf(&corev1.PersistentVolumeClaim{Spec: v.Ephemeral.VolumeClaimTemplate.Spec})...)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// unknownOf names the volume of a bound claim, or the storage class of an unbound claim, if this object is unknown.
func (s *Store) unknownOf(o *corev1.PersistentVolumeClaim) []string {
	bound := o.Spec.VolumeName != "" && metav1.HasAnnotation(o.ObjectMeta, AnnBindCompleted)
	switch class := classOfClaim(o); {
	case bound && s.volumes[o.Spec.VolumeName] == nil:
		return []string{"volume " + o.Spec.VolumeName}
	case !bound && class != "" && s.classes[class] == nil:
		return []string{"storage class " + class}
	}
	return nil
}
