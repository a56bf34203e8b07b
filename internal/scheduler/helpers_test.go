// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/test/testutil/gangtest"
)

var (
	profile  = gangtest.Profile
	frozen   = gangtest.Frozen
	newGroup = gangtest.Group
	newPod   = gangtest.Pod
)

func placementAt(domain string) trellisv1alpha1.ReplicaPlacement {
	return trellisv1alpha1.ReplicaPlacement{Domain: domain}
}

// onlyOn is the affinity of a pod that is pinned to a host by name.
func onlyOn(host string) *corev1.Affinity {
	named := corev1.NodeSelectorRequirement{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{host}}
	return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{named}}},
	}}}
}
