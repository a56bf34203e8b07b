// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"context"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/controller/adoption"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/operator"
	"github.com/trellis-k8s/trellis/internal/provider"
	"github.com/trellis-k8s/trellis/internal/provider/kai"
	"github.com/trellis-k8s/trellis/internal/provider/kai/placer"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/test/testutil/providertest"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

// pods of a replica as the scaling group controller makes them.
func (s scenario) pods(ctx context.Context, p provider.Placer, group int, ordinal int32) []*corev1.Pod {
	GinkgoHelper()
	sg := s.groups[group]
	var pods []*corev1.Pod
	for index := range render.PodsPerReplica(sg) {
		pods = append(pods, render.BuildPod(sg, ordinal, index))
	}
	p.Prepare(sg, ordinal, pods, nil)
	for _, pod := range pods {
		made(ctx, pod)
	}
	Expect(p.Kept(pods)).To(BeTrue(), "the API server does not keep what the placer makes of pods")
	return pods
}

func (s scenario) gang(replicas ...gang.Member) gang.Members {
	return gang.Members{Name: s.dgd.Name, Graph: s.dgd, Groups: s.groups, Replicas: replicas}
}

func podGroup(ctx context.Context, name string) (*kai.PodGroup, *unstructured.Unstructured) {
	GinkgoHelper()
	object, err := client.Resource(resources["PodGroup"]).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	Expect(err).NotTo(HaveOccurred())
	return read[kai.PodGroup](object), object
}

var _ = Describe("The placer for KAI", labelKAI, func() {
	It("lists in the PodGroup what is released, now or before, and not what is gone", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		s, p := newScenario(ctx, "forms", specs.KAI.Name), placer.New(typed, typed)
		decode, frontend := s.groups[0], s.groups[1]
		base := []gang.Member{{Group: decode, Ordinal: 0, Pods: s.pods(ctx, p, 0, 0)}, {Group: frontend, Ordinal: 0, Pods: s.pods(ctx, p, 1, 0)}}
		later := gang.Member{Group: decode, Ordinal: 1, Pods: s.pods(ctx, p, 0, 1)}

		form := func(gang gang.Members) string {
			GinkgoHelper()
			Expect(p.Form(ctx, gang)).To(Succeed())
			pg, _ := podGroup(ctx, "forms")
			return providertest.SketchKAI(pg)
		}
		By("the base gang")
		want := `forms needs 2 in one zone, block first
  forms-decode-all needs 1
    forms-decode-0 pods 3 in one block, rack first
  forms-frontend-all pods 1
`
		Expect(cmp.Diff(want, form(s.gang(base...)))).To(BeEmpty(), "(-want +got)")

		By("again: nothing is written")
		_, before := podGroup(ctx, "forms")
		form(s.gang(base...))
		_, after := podGroup(ctx, "forms")
		Expect(after.GetResourceVersion()).To(Equal(before.GetResourceVersion()), "it was written though nothing changed")

		By("another replica, while the first one's gates are still closed")
		both := strings.Replace(want, "  forms-frontend", "    forms-decode-1 pods 3 in one block, rack first\n  forms-frontend", 1)
		Expect(cmp.Diff(both, form(s.gang(later)))).To(BeEmpty(), "(-want +got)")

		By("the first replica is lost; it leaves the list")
		for _, pod := range base[0].Pods {
			Expect(typed.Delete(ctx, pod, ctrlclient.GracePeriodSeconds(0))).To(Succeed())
		}
		trim := func(pods ...*corev1.Pod) string {
			GinkgoHelper()
			Expect(p.Trim(ctx, typed, s.gang(), pods)).To(Succeed())
			pg, _ := podGroup(ctx, "forms")
			return providertest.SketchKAI(pg)
		}
		Expect(cmp.Diff(both, trim(slices.Concat(base[0].Pods, base[1].Pods, later.Pods)...))).To(BeEmpty(), "nothing is lost yet (-want +got)")
		onlyLater := And(Not(ContainSubstring("forms-decode-0")), ContainSubstring("forms-decode-1"))
		Expect(trim(slices.Concat(base[1].Pods, later.Pods)...)).To(And(onlyLater, ContainSubstring("frontend")), "KAI would call the lost replica stale")
		Expect(form(s.gang(later))).To(onlyLater)

		By("one of ours without an owner is adopted, unless the deployment is gone; another's is left alone")
		setOwners := func(owners ...metav1.OwnerReference) {
			GinkgoHelper()
			_, object := podGroup(ctx, "forms")
			object.SetOwnerReferences(owners)
			Expect(resourceOf(object).Update(ctx, object, metav1.UpdateOptions{})).Error().NotTo(HaveOccurred())
		}
		isAdopted := func() {
			GinkgoHelper()
			_, object := podGroup(ctx, "forms")
			Expect(metav1.IsControlledBy(object, s.dgd)).To(BeTrue(), "not adopted: %v", object.GetOwnerReferences())
			Expect(object.GetOwnerReferences()).To(HaveLen(1))
		}
		setOwners()
		gone := s.gang(base[1])
		gone.Graph = gone.Graph.DeepCopy()
		gone.Graph.UID = "another"
		Expect(p.Form(ctx, gone)).To(MatchError(ContainSubstring("is not adopted: forms is gone or being deleted")), "it was adopted for a deployment that is gone")
		form(s.gang(base[1]))
		isAdopted()
		setOwners()
		adopter := adoption.Adopter{Client: typed, Live: typed, Owner: s.dgd, Kind: nvidiav1beta1.GroupVersion.WithKind("DynamoGraphDeployment")}
		for range 2 {
			Expect(p.Adopt(ctx, adopter)).To(Succeed())
			isAdopted()
		}
		setOwners(metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "somebodys", UID: "1", Controller: ptr.To(true)})
		Expect(p.Form(ctx, s.gang(base[1]))).To(MatchError(ContainSubstring("left alone")), "it was taken over")
	})

	It("passes on what KAI says of what waits now, not of what waited earlier", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		s, p := newScenario(ctx, "objects", specs.KAI.Name), placer.New(typed, typed)
		pods := s.pods(ctx, p, 1, 0)
		Expect(p.Form(ctx, s.gang(gang.Member{Group: s.groups[1], Pods: pods}))).To(Succeed())
		Expect(p.Release(ctx, pods[0], gang.Pin{Graph: s.dgd.Name, Gang: "gang"})).To(Succeed())
		Expect(typed.Get(ctx, ctrlclient.ObjectKeyFromObject(pods[0]), pods[0])).To(Succeed())
		says := func(since string) string {
			GinkgoHelper()
			_, object := podGroup(ctx, "objects")
			status(ctx, object, `
  schedulingConditions: [{type: UnschedulableOnNodePool, status: "True", reason: Unschedulable, message: Unable to schedule podgroup, lastTransitionTime: "`+since+`",
    reasons: [{reason: OverLimit, message: the queue is full}]}]`)
			objection := p.Objections(ctx, typed, pods, pods)[pods[0].UID]
			if objection.Message != "" {
				Expect(objection).To(HaveField("Anywhere", true), "another place would not help")
			}
			return objection.Message
		}
		Expect(says("2020-01-01T00:00:00Z")).To(BeEmpty(), "an earlier word counts")
		Expect(says("2099-01-01T00:00:00Z")).To(Equal("KAI: the queue is full"))
		Expect(p.Objections(ctx, nil, pods, pods)).To(BeEmpty(), "not watched")
		pods[0].Status.Conditions = []corev1.PodCondition{
			{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: "no node"},
		}
		Expect(p.Objections(ctx, nil, pods, pods)[pods[0].UID].Message).To(Equal("KAI: no node"), "on the pod alone")
		pods[0].Status.NominatedNodeName = "n"
		Expect(p.Objections(ctx, typed, pods, pods)).To(BeEmpty(), "capacity is being made for it")
	})

	It("is ready where KAI's API is served with all its fields", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		state, err := placer.New(typed, typed).Probe(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(state).To(HaveField("Ready", true), "served")

		empty := fake.NewClientBuilder().WithScheme(operator.NewScheme()).Build()
		state, err = placer.New(empty, empty).Probe(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(state).To(And(HaveField("Ready", false), HaveField("Reason", nvidiav1alpha1.ReasonAPINotServed),
			HaveField("Message", ContainSubstring("install KAI"))))

		older, err := definition("kai/scheduling.run.ai_podgroups.yaml")
		Expect(err).NotTo(HaveOccurred())
		delete(older.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties, "minSubGroup")
		reader := fake.NewClientBuilder().WithScheme(operator.NewScheme()).WithObjects(older).Build()
		state, err = placer.New(reader, reader).Probe(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(state).To(And(HaveField("Ready", false), HaveField("Reason", nvidiav1alpha1.ReasonFieldsDropped)), "older")
	})

	It("makes a Topology, replaces it when its levels change, and leaves another's alone", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		k := newKeeping(ctx, "kept", "Topology", placer.New(typed, typed).KeepTopology)
		Expect(k.keep()).To(BeEmpty())
		first := k.get()
		Expect(k.keep()).To(BeEmpty())
		Expect(k.get().GetResourceVersion()).To(Equal(first.GetResourceVersion()), "written again")
		k.ct.Spec.Levels = slices.Delete(k.ct.Spec.Levels, 1, 2)
		Expect(k.keep()).To(BeEmpty(), "levels changed")
		Expect(k.get().GetUID()).NotTo(Equal(first.GetUID()), "levels changed")
		Expect(read[kai.Topology](k.get()).Spec.Levels).To(HaveLen(3))
		k.disown()
		k.ct.Spec.Levels = k.ct.Spec.Levels[1:]
		before := k.get().GetResourceVersion()
		Expect(k.keep()).To(ContainSubstring("left unchanged"), "another's")
		Expect(k.get().GetResourceVersion()).To(Equal(before), "another's")
		k.ct.Spec.SchedulerTopologyReferences = []grovev1alpha1.SchedulerTopologyReference{{SchedulerName: kai.SchedulerName, TopologyReference: "site"}}
		Expect(k.keep()).To(ContainSubstring(`KAI has no Topology "site"`), "referenced and absent")
	})

	It("makes a Topology for a ClusterTopologyBinding, which owns it", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		k := newBindingKeeping(ctx, "of-binding", "Topology", placer.New(typed, typed).KeepTopology)
		Expect(k.keep()).To(BeEmpty())
		owner := metav1.GetControllerOf(k.get())
		Expect(owner).To(HaveValue(And(HaveField("Kind", "ClusterTopologyBinding"), HaveField("UID", k.ct.UID))))
		first := k.get()
		k.ct.Spec.Levels = k.ct.Spec.Levels[1:]
		Expect(k.keep()).To(BeEmpty(), "levels changed")
		Expect(k.get().GetUID()).NotTo(Equal(first.GetUID()), "levels changed")
		k.ct.Spec.SchedulerTopologyReferences = []grovev1alpha1.SchedulerTopologyReference{{SchedulerName: kai.SchedulerName, TopologyReference: "site"}}
		Expect(k.keep()).To(ContainSubstring(`schedulerTopologyBindings of ClusterTopologyBinding "of-binding" names`), "referenced and absent")
	})
})
