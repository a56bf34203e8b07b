// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package volumes

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
)

// volumeOf parses the node affinity of a volume.
func (s *Store) volumeOf(of *corev1.PersistentVolume) *volume {
	v := &volume{PersistentVolume: of}
	if of.Spec.NodeAffinity == nil || of.Spec.NodeAffinity.Required == nil {
		return v
	}
	s.parsed++
	var err error
	v.required, err = nodeaffinity.NewNodeSelector(of.Spec.NodeAffinity.Required)
	v.nowhere = err != nil
	terms := of.Spec.NodeAffinity.Required.NodeSelectorTerms
	for i := range terms {
		for k := range terms[i].MatchExpressions {
			e := &terms[i].MatchExpressions[k]
			if v.keys = append(v.keys, e.Key); len(terms) == 1 && v.in == nil && e.Operator == corev1.NodeSelectorOpIn {
				v.in = e
			}
		}
	}
	return v
}

// reaches reports whether the node affinity of a volume matches a node with the given labels.
func (s *Store) reaches(v *volume, of map[string]string) bool {
	if v.required == nil {
		return !v.nowhere
	}
	s.matched++
	return !v.nowhere && v.required.Match(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: of}})
}

// reach returns the reason why a volume cannot be used on a node.
func (s *Store) reach(v *volume, of map[string]string) string {
	if !s.reaches(v, of) {
		return "volume " + v.Name + " is elsewhere"
	}
	if !inZones(v.PersistentVolume, of) {
		return "volume " + v.Name + " is in another zone"
	}
	return ""
}
