// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/operator"
	"github.com/trellis-k8s/trellis/internal/provider"
	"github.com/trellis-k8s/trellis/internal/provider/external"
	"github.com/trellis-k8s/trellis/internal/provider/kai"
	"github.com/trellis-k8s/trellis/internal/provider/kai/placer"
	"github.com/trellis-k8s/trellis/internal/provider/lws"
	"github.com/trellis-k8s/trellis/internal/provider/lws/maker"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

// group is a scaling group on the API server whose pods come from sets.
func group(ctx context.Context, name, providerName string) *trellisv1alpha1.ScalingGroup {
	GinkgoHelper()
	sg := newScenario(ctx, name, providerName).groups[0]
	sg.Spec.Workload = specs.LeaderWorkerSet
	return sg
}

func ends(sg *trellisv1alpha1.ScalingGroup, ordinals ...int32) {
	DeferCleanup(func(ctx SpecContext) {
		for _, ordinal := range ordinals {
			sets := client.Resource(resources[lws.Kind.Kind]).Namespace(sg.Namespace)
			_ = sets.Delete(ctx, render.SetName(sg, ordinal), metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationBackground)})
		}
	})
}

// ungc plays the garbage collector for the sets of a group.
func ungc(ctx context.Context, sg *trellisv1alpha1.ScalingGroup) {
	GinkgoHelper()
	set, err := client.Resource(resources[lws.Kind.Kind]).Namespace(sg.Namespace).Get(ctx, render.SetName(sg, 0), metav1.GetOptions{})
	Expect(err).NotTo(HaveOccurred())
	set.SetFinalizers(nil)
	Expect(resourceOf(set).Update(ctx, set, metav1.UpdateOptions{})).Error().NotTo(HaveOccurred())
}

func setsOf(ctx context.Context, m maker.Maker, sg *trellisv1alpha1.ScalingGroup) map[int32]ctrl.Object {
	GinkgoHelper()
	sets, err := m.Sets(ctx, nil, sg)
	Expect(err).NotTo(HaveOccurred())
	return sets
}

var _ = Describe("The maker of LeaderWorkerSets", labelLWS, func() {
	It("makes pods under KAI that are KAI's and gated, and members once they are released", labelKAI, SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		sg, m, p := group(ctx, "joined", specs.KAI.Name), maker.New(typed, typed), placer.New(typed, typed)
		ends(sg, 1)
		Expect(m.Make(ctx, sg, []int32{1}, func(ordinal int32, pod *corev1.Pod) { p.Prepare(sg, ordinal, []*corev1.Pod{pod}, nil) })).To(Succeed())
		sets, err := m.Sets(ctx, typed, sg)
		Expect(err).NotTo(HaveOccurred())
		Expect(sets).To(HaveLen(1))
		template := read[lws.LeaderWorkerSet](sets[1].(*unstructured.Unstructured)).Spec.LeaderWorkerTemplate
		for role, half := range map[string]lws.PodTemplate{render.RoleLeader: *template.LeaderTemplate, render.RoleWorker: template.WorkerTemplate} {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: half.Metadata.Labels, Annotations: half.Metadata.Annotations}, Spec: half.Spec}
			Expect(p.Kept([]*corev1.Pod{pod})).To(BeTrue(), "%s: annotations %v", role, pod.Annotations)
			Expect(pod.Labels).To(And(HaveKeyWithValue(render.LabelRole, role), Not(HaveKey(kai.LabelSubGroup))))
			Expect(pod.Spec.SchedulerName).To(Equal(kai.SchedulerName), role)
			Expect(pod.Spec.SchedulingGates).To(HaveLen(1), role)
		}
	})

	It("makes a set once, and neither takes nor deletes another's of that name", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		sg, m := group(ctx, "mine", specs.Gates.Name), maker.New(typed, typed)
		ends(sg, 0, 1)
		as := func(int32, *corev1.Pod) {}
		Expect(m.Make(ctx, sg, []int32{0}, as)).To(Succeed())
		before := setsOf(ctx, m, sg)
		Expect(before).To(And(HaveLen(1), HaveKey(int32(0))))
		Expect(m.Make(ctx, sg, []int32{0}, as)).To(Succeed(), "recreated")
		Expect(setsOf(ctx, m, sg)).To(HaveKey(int32(0)))
		Expect(setsOf(ctx, m, sg)[0].GetResourceVersion()).To(Equal(before[0].GetResourceVersion()), "it was written again")

		foreign, err := external.Object(lws.For(sg).Render(1, nil))
		Expect(err).NotTo(HaveOccurred())
		Expect(typed.Create(ctx, foreign)).To(Succeed())
		Expect(m.Make(ctx, sg, []int32{1}, as)).To(MatchError(HaveSuffix("does not belong to this group; it is left unchanged. "+
			"It cannot be adopted, since its pods name an earlier scaling group. To delete all of that: "+
			"kubectl delete -n default leaderworkersets.leaderworkerset.x-k8s.io "+foreign.GetName())), "a set without an owner was taken, or how it is deleted is not reported")
		foreign.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "somebodys", UID: "1", Controller: ptr.To(true)}})
		Expect(typed.Update(ctx, foreign)).To(Succeed())
		Expect(m.Make(ctx, sg, []int32{1}, as)).To(MatchError(HaveSuffix("does not belong to this group; it is left unchanged")), "another's set was taken, or how it is deleted is reported")
		Expect(m.Unmake(ctx, sg, 1)).To(BeFalse(), "another's set was deleted")
		Expect(setsOf(ctx, m, sg)).NotTo(HaveKey(int32(1)), "another's set counts as the group's")

		Expect(m.Unmake(ctx, sg, 0)).To(BeTrue(), "its own was not deleted")
		Expect(setsOf(ctx, m, sg)).To(HaveKeyWithValue(int32(0), HaveField("GetDeletionTimestamp()", Not(BeNil()))), "it is deleted after its pods")
		Expect(m.Unmake(ctx, sg, 7)).To(BeFalse(), "one that is not there")
		ungc(ctx, sg)
	})

	It("makes no set where the API server drops the gate", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		sg := group(ctx, "dropped", specs.Gates.Name)
		base, err := ctrl.NewWithWatch(restConfig, ctrl.Options{Scheme: operator.NewScheme()})
		Expect(err).NotTo(HaveOccurred())
		strips := interceptor.NewClient(base, interceptor.Funcs{
			Create: func(ctx context.Context, c ctrl.WithWatch, o ctrl.Object, options ...ctrl.CreateOption) error {
				unstructured.RemoveNestedField(o.(*unstructured.Unstructured).Object, "spec", "leaderWorkerTemplate", "workerTemplate", "spec", "schedulingGates")
				return c.Create(ctx, o, options...)
			},
			Delete: func(ctx context.Context, c ctrl.WithWatch, o ctrl.Object, options ...ctrl.DeleteOption) error {
				// There is no garbage collector here.
				return c.Delete(ctx, o, append(options, ctrl.PropagationPolicy(metav1.DeletePropagationBackground))...)
			},
		})
		m := maker.New(strips, typed)
		err = m.Make(ctx, sg, []int32{0}, func(int32, *corev1.Pod) {})
		Expect(err).To(MatchError(provider.ErrDropped))
		Expect(err).To(MatchError(ContainSubstring("workerTemplate.spec.schedulingGates")))
		Expect(setsOf(ctx, m, sg)).To(BeEmpty(), "it is still there")
	})
})
