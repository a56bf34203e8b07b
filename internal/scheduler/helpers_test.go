// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/assignment"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/test/testutil/gangtest"
)

var (
	hall     = gangtest.Topology
	frozen   = gangtest.Frozen
	newGroup = gangtest.Group
	newPod   = gangtest.Pod
)

// formerlyAt is the record of a graph whose first replica was in a domain, and has no place now.
func formerlyAt(domain ...string) *assignment.Record {
	r := (&assignment.Record{}).Clone()
	r.Former[gang.Key{Component: "work"}] = assignment.Place{Attempt: 1, Domain: domain}
	return r
}

// records has a record stored for a graph.
func (b *bench) records(o gang.Observation, record *assignment.Record) {
	b.t.Helper()
	stored := &trellisv1alpha1.GraphPlacement{ObjectMeta: metav1.ObjectMeta{Namespace: o.DGD.Namespace, Name: o.DGD.Name}, Spec: record.Encode(o.DGD.UID)}
	if err := newRecordStore(b.t, b).Create(b.t.Context(), stored); err != nil {
		b.t.Fatal(err)
	}
}

// onlyOn is the affinity of a pod that is pinned to a host by name.
func onlyOn(host string) *corev1.Affinity {
	named := corev1.NodeSelectorRequirement{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{host}}
	return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{named}}},
	}}}
}
