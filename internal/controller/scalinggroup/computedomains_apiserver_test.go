// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scalinggroup

import (
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/nvlink"
	"github.com/trellis-k8s/trellis/test/testutil/apiserver"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

// computeDomainDefinition has what matters here of that of NVIDIA's driver.
const computeDomainDefinition = `
metadata: {name: computedomains.resource.nvidia.com}
spec:
  group: resource.nvidia.com
  names: {kind: ComputeDomain, listKind: ComputeDomainList, plural: computedomains, singular: computedomain}
  scope: Namespaced
  versions:
  - name: v1beta1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`

// withOwnDomains has each replica join a ComputeDomain of its own, as it is rendered.
func withOwnDomains(sg *trellisv1alpha1.ScalingGroup) *trellisv1alpha1.ScalingGroup {
	for i := range sg.Spec.Roles {
		sg.Spec.Roles[i].Template.Spec.ResourceClaims = []corev1.PodResourceClaim{
			{Name: "trellis-replica-compute-domain", ResourceClaimTemplateName: ptr.To("g-all-channel")},
		}
	}
	return sg
}

// domains are the ComputeDomains of the spec, as "name: channel", and whose they are.
func (s *server) domains() (list []string) {
	GinkgoHelper()
	found := &unstructured.UnstructuredList{}
	found.SetGroupVersionKind(nvlink.GroupVersion.WithKind("ComputeDomainList"))
	Expect(s.r.Live.List(s.ctx, found, client.InNamespace(s.ns))).To(Succeed())
	for i := range found.Items {
		channel, _, _ := unstructured.NestedString(found.Items[i].Object, "spec", "channel", "resourceClaimTemplate", "name")
		if metav1.IsControlledBy(&found.Items[i], s.group()) {
			channel += " of the group"
		}
		list = append(list, found.Items[i].GetName()+": "+channel)
	}
	return list
}

// templates are what the pods claim channels by.
func (s *server) templates() string {
	GinkgoHelper()
	var list []string
	for _, pod := range s.pods() {
		list = append(list, strings.TrimPrefix(pod.Name, "g-worker-")+": "+*pod.Spec.ResourceClaims[0].ResourceClaimTemplateName)
	}
	return strings.Join(list, ", ")
}

func (s *server) domain(name string) *unstructured.Unstructured {
	domain := &unstructured.Unstructured{}
	domain.SetGroupVersionKind(nvlink.GroupVersion.WithKind(nvlink.Kind))
	domain.SetNamespace(s.ns)
	domain.SetName(name)
	return domain
}

var _ = Describe("Replicas with a ComputeDomain of their own", func() {
	It("get it before their pods, and it goes with them", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		s := newServer(ctx)
		Expect(s.c.Create(ctx, withOwnDomains(s.startable(group(2, 2))))).To(Succeed())

		By("without the definition no pod is made, and the group says why")
		Expect(s.reconcile()).To(MatchError(ContainSubstring("creating ComputeDomain g-all-")))
		Expect(s.pods()).To(BeEmpty())
		Expect(s.group().Status.Conditions).To(ContainElement(And(HaveField("Type", trellisv1alpha1.ConditionPodsInSync),
			HaveField("Status", metav1.ConditionFalse), HaveField("Message", ContainSubstring("ComputeDomain")))))

		By("with it each replica has one")
		definition := &apiextensionsv1.CustomResourceDefinition{}
		Expect(yaml.UnmarshalStrict([]byte(computeDomainDefinition), definition)).To(Succeed())
		Expect(apiserver.Install(shared, definition)).To(Succeed())
		s.settle()
		Expect(s.templates()).To(Equal("0-0: g-all-0-channel, 0-1: g-all-0-channel, 1-0: g-all-1-channel, 1-1: g-all-1-channel"))
		both := []string{"g-all-0: g-all-0-channel of the group", "g-all-1: g-all-1-channel of the group"}
		Expect(s.domains()).To(Equal(both))

		By("one that is deleted is made again with its replica, which is the youngest from then on")
		Expect(s.c.Delete(ctx, s.domain("g-all-1"))).To(Succeed())
		lost := &corev1.Pod{}
		Expect(s.c.Get(ctx, client.ObjectKey{Namespace: s.ns, Name: "g-worker-1-0"}, lost)).To(Succeed())
		Expect(s.c.Delete(ctx, lost, client.GracePeriodSeconds(0))).To(Succeed())
		s.settle()
		Expect(s.domains()).To(Equal(both))

		By("a replica that is gone permanently takes it along, also after a restart of the operator")
		s.r.domains.groups = nil
		s.change(func(spec *trellisv1alpha1.ScalingGroupSpec) { spec.Replicas = 1 })
		s.settle()
		Eventually(ctx, func(g Gomega) []string { // the end of each pod brings a reconcile
			g.Expect(s.reconcile()).To(Succeed())
			return s.domains()
		}).Should(Equal(both[:1]))

		By("one of the name that is not the group's is left alone, and its replica waits")
		theirs := s.domain("g-all-1")
		Expect(s.c.Create(ctx, theirs)).To(Succeed())
		s.change(func(spec *trellisv1alpha1.ScalingGroupSpec) { spec.Replicas = 3 })
		Expect(s.reconcile()).To(MatchError(ContainSubstring("ComputeDomain g-all-1 exists and is not this group's; it is left alone")))
		Expect(s.templates()).To(Equal("0-0: g-all-0-channel, 0-1: g-all-0-channel, 2-0: g-all-2-channel, 2-1: g-all-2-channel"))

		By("one on its way out is waited for")
		theirs.SetFinalizers([]string{"example.com/busy"})
		Expect(s.c.Update(ctx, theirs)).To(Succeed())
		Expect(s.c.Delete(ctx, theirs)).To(Succeed())
		Expect(s.reconcile()).To(MatchError(ContainSubstring("ComputeDomain g-all-1 is being deleted, and its replica waits for its end")))
		Expect(s.c.Get(ctx, client.ObjectKeyFromObject(theirs), theirs)).To(Succeed())
		theirs.SetFinalizers(nil)
		Expect(s.c.Update(ctx, theirs)).To(Succeed())
		s.settle()
		Expect(s.pods()).To(HaveLen(6))
		Expect(s.domains()).To(HaveLen(3))
	})
})
