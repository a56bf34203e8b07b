// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scalinggroup

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/trellis-k8s/trellis/internal/provider"
	"github.com/trellis-k8s/trellis/internal/provider/kai"
	kaiplacer "github.com/trellis-k8s/trellis/internal/provider/kai/placer"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
	"github.com/trellis-k8s/trellis/test/testutil/providertest"
)

// TestPodsOutsideOfGangsAreKAIsToo: placed by another scheduler they would use what their queue has not been granted. It is about pods to
// come: the revision, by which pods are replaced, is the same.
func TestPodsOutsideOfGangsAreKAIsToo(t *testing.T) {
	for text, queue := range map[string]string{
		"metadata: {name: g, namespace: ns}":                                                      "default-queue",
		"metadata: {name: g, namespace: ns, annotations: {nvidia.com/kai-scheduler-queue: team}}": "team",
		"metadata: {name: g, namespace: ns, labels: {kai.scheduler/queue: team}}":                 "team",
	} {
		dgd := providertest.Deployment(t, text+"\nspec: {services: {Flat: {componentType: worker, replicas: 2}}}")
		sg := providertest.Groups(t, dgd, specs.KAI.Name)[0]
		if under := providertest.Groups(t, dgd, specs.Gates.Name)[0]; under.Spec.Revision != sg.Spec.Revision || under.Annotations[kai.AnnotationQueue] != "" {
			t.Errorf("%s: revision %s under KAI, %s under Gates; %v", text, sg.Spec.Revision, under.Spec.Revision, under.Annotations)
		}
		old := podsOf(sg, 0, running)
		replicas := replicasOf(sg, old, func(*corev1.Pod) bool { return false })
		r := &Reconciler{Providers: provider.New(provider.Options{}, provider.All{Placers: []provider.Placer{kaiplacer.New(nil, nil)}})}
		steps := (&pass{Reconciler: r, observed: observed{sg: sg, replicas: replicas}}).fit(t.Context(), plan(sg, replicas))
		if len(steps.create) != 1 || len(steps.delete) != 0 {
			t.Fatalf("%s: %d made, %d deleted, want the second replica made and nothing deleted", text, len(steps.create), len(steps.delete))
		}
		pod := steps.create[0]
		if pod.Spec.SchedulerName != kai.SchedulerName || pod.Labels[kai.LabelQueue] != queue || pod.Annotations[kai.AnnotationSkipGrouper] != "" {
			t.Errorf("%s: %q %v %v", text, pod.Spec.SchedulerName, pod.Labels, pod.Annotations)
		}
	}
}
