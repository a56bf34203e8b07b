// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
)

// Claims are the persistent volume claims of a graph.
type Claims struct {
	// Created are the claims that the graph owns. They are created once, never changed, and deleted with the graph.
	Created []*corev1.PersistentVolumeClaim
	// Needed maps the names of claims that must already exist to the components whose pods wait for these claims.
	Needed map[string][]string
}

// claimsOf lists the claims that the deployment tells Trellis to create, and all other claims that the deployment's pods mount.
func (g *Graph) claimsOf(dgd *nvidiav1beta1.DynamoGraphDeployment, pvcs []nvidiav1alpha1.PVC) Claims {
	out := Claims{}
	created := map[string]bool{}
	for i := range pvcs {
		if pvc := &pvcs[i]; ptr.Deref(pvc.Create, false) && pvc.Name != nil {
			created[*pvc.Name] = true
			out.Created = append(out.Created, g.claim(dgd, pvc))
		}
	}
	for _, s := range g.Components {
		for _, name := range mountedClaims(&s) {
			if created[name] {
				continue
			}
			if out.Needed == nil {
				out.Needed = map[string][]string{}
			}
			out.Needed[name] = append(out.Needed[name], s.Name)
		}
	}
	return out
}

func mountedClaims(s *Component) []string {
	var names []string
	for i := range s.Roles {
		for _, volume := range s.Roles[i].Template.Spec.Volumes {
			if source := volume.PersistentVolumeClaim; source != nil && !slices.Contains(names, source.ClaimName) {
				names = append(names, source.ClaimName)
			}
		}
	}
	return names
}

func (g *Graph) claim(dgd *nvidiav1beta1.DynamoGraphDeployment, pvc *nvidiav1alpha1.PVC) *corev1.PersistentVolumeClaim {
	meta := g.graphMeta(*pvc.Name)
	for key, value := range dgd.Spec.Labels {
		if _, ours := meta.Labels[key]; !ours {
			meta.Labels[key] = value
		}
	}
	meta.Annotations = dgd.Spec.Annotations
	return &corev1.PersistentVolumeClaim{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"},
		ObjectMeta: meta,
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes:      []corev1.PersistentVolumeAccessMode{pvc.VolumeAccessMode},
			StorageClassName: ptr.To(pvc.StorageClass),
			Resources:        corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: pvc.Size.DeepCopy()}},
		},
	}
}
