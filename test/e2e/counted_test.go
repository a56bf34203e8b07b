// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

// withPodSpec is a component whose pods have a spec of their own.
func withPodSpec(s *nvidiav1alpha1.ServiceSpec, spec corev1.PodSpec) *nvidiav1alpha1.ServiceSpec {
	if s.ExtraPodSpec == nil {
		s.ExtraPodSpec = &nvidiav1alpha1.ExtraPodSpec{}
	}
	s.ExtraPodSpec.PodSpec = &spec
	return s
}

// mounting is a pod spec with a volume by its claim.
func mounting(claim string) corev1.PodSpec {
	return corev1.PodSpec{Volumes: []corev1.Volume{{Name: claim, VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}}}}
}

// createVolumeIn makes a volume for a claim of the world that can be used in one zone.
func (w *world) createVolumeIn(claim, zone string) {
	w.t.Helper()
	volume := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: w.name + "-" + claim},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: storage(), AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}, StorageClassName: "shared",
			ClaimRef:               &corev1.ObjectReference{Namespace: w.name, Name: claim},
			PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/" + claim}},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: zoneKey, Operator: corev1.NodeSelectorOpIn, Values: []string{zone}}}}}}},
		},
	}
	w.create(volume)
	w.t.Cleanup(func() { _ = w.c.Delete(context.Background(), volume) })
}

// notEvicted expects that the operator has evicted none of the world's gangs.
func (w *world) notEvicted(ctx context.Context) {
	GinkgoHelper()
	events := &corev1.EventList{}
	Expect(w.c.List(ctx, events)).To(Succeed())
	for i := range events.Items {
		if events.Items[i].InvolvedObject.Namespace == w.name {
			Expect(events.Items[i].Reason).NotTo(Equal("Requeued"), events.Items[i].Message)
		}
	}
}

var _ = Describe("What the kube-scheduler asks beyond the resources of a node", func() {
	It("counts volumes: a gang waits for its claim and goes where the volume is", func(ctx SpecContext) {
		w := newWorld(ctx, "volumes", racks(2, 8, "a/r0", "b/r0")...)
		w.create(w.graphOf("g", "", services{"Worker": withPodSpec(worker(1, 2, 8, "rack"), mounting("models"))}))
		w.hasCondition("g", nvidiav1alpha1.ConditionPlaced, metav1.ConditionFalse, "InsufficientCapacity", "volume claim models does not exist")

		w.createVolumeIn("models", "b")
		w.create(claimOf(w.name, "models"))
		w.ready("g")
		Expect(w.of("Worker")).To(w.bePlacedIn("rack", "b/r0"))
		w.notEvicted(ctx)
	}, SpecTimeout(suite.Timeout()))

	It("counts rules about other pods: replicas go to racks without a pod that theirs keep away from", func(ctx SpecContext) {
		w := newWorld(ctx, "pods", racks(2, 8, "a/r0", "a/r1", "a/r2")...)
		lone := client.RawPatch(types.MergePatchType, []byte(`{"metadata": {"labels": {"app": "`+w.name+`-lone"}}}`))
		Expect(w.c.Patch(ctx, w.occupy("lone", "a-r0-0", 1), lone)).To(Succeed())
		apart := corev1.PodSpec{Affinity: &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
				{TopologyKey: rackKey, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": w.name + "-lone"}}},
			}}}}
		w.create(w.graphOf("g", "", services{"Worker": withPodSpec(worker(2, 2, 8, "rack"), apart)}))
		w.ready("g")
		Expect(w.of("Worker")).To(w.bePlacedIn("rack", "a/r1", "a/r2"))
		w.notEvicted(ctx)
	}, SpecTimeout(suite.Timeout()))

	It("counts topology spread: pods over the racks of their zone", func(ctx SpecContext) {
		w := newWorld(ctx, "counted-spread", racks(1, 8, "a/r0", "a/r1")...)
		spread := corev1.PodSpec{TopologySpreadConstraints: []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: rackKey, WhenUnsatisfiable: corev1.DoNotSchedule, MinDomains: ptr.To[int32](2),
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{render.LabelComponent: "Worker"}},
		}}}
		w.create(w.graphOf("g", "zone", services{"Worker": withPodSpec(worker(1, 2, 1, ""), spread)}))
		w.ready("g")
		Expect(w.domains("rack", w.of("Worker")...)).To(ConsistOf("a/r0", "a/r1"))
		w.notEvicted(ctx)
	}, SpecTimeout(suite.Timeout()))
})
