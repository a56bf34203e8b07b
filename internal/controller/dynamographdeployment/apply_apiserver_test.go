// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package dynamographdeployment

import (
	"errors"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

var _ = Describe("A child of a deployment", func() {
	// On a real API server, which keeps account of who owns which field.
	It("is created without a look, applied when it differs, also in what is wanted no longer, and left alone when it is another's", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		namespace := suite.Namespace(api)
		dgd := &nvidiav1beta1.DynamoGraphDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "llm", UID: "1b9c0b4e-0b1a-4e0e-9f0a-0d8f0a7f0001"}}
		child := func(name string, port int32, metadata map[string]string) *corev1.Service {
			return &corev1.Service{
				TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: metadata, Annotations: metadata},
				Spec:       corev1.ServiceSpec{Selector: map[string]string{"a": "b"}, Ports: []corev1.ServicePort{{Name: "http", Port: port, Protocol: corev1.ProtocolTCP}}},
			}
		}
		read := func(name string) *corev1.Service {
			GinkgoHelper()
			service := &corev1.Service{}
			Expect(api.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, service)).To(Succeed())
			return service
		}
		apply := func(c client.Client, service *corev1.Service) error {
			existing := &corev1.Service{}
			return (&Reconciler{Client: c, Live: api}).applyChild(ctx, dgd, service, existing, func() bool {
				return len(existing.Spec.Ports) == 1 && existing.Spec.Ports[0].Port == service.Spec.Ports[0].Port
			})
		}
		Expect(apply(api, child("llm", 80, map[string]string{"ours": "1", "dropped": "1"}))).To(Succeed())
		theirs := read("llm")
		theirs.Annotations["theirs"] = "1"
		Expect(api.Update(ctx, theirs, client.FieldOwner("admin"))).To(Succeed())
		before := read("llm").ResourceVersion
		for _, c := range []client.Client{api, lagging{api}} { // the same content, seen in the cache and past it
			Expect(apply(c, child("llm", 80, map[string]string{"ours": "1", "dropped": "1"}))).To(Succeed())
			Expect(read("llm").ResourceVersion).To(Equal(before), "a child that is as wanted was written")
		}
		for i, c := range []client.Client{api, lagging{api}} { // what was created, and what was applied before
			wanted := map[string]string{"ours": "1"}
			Expect(apply(c, child("llm", int32(80+i), wanted))).To(Succeed())
			Expect(wanted).To(HaveLen(1), "what is wanted was changed")
			got := read("llm")
			delete(got.Annotations, render.AnnotationApplied)
			Expect(got.Labels).To(Equal(wanted))
			Expect(got.Annotations).To(Equal(map[string]string{"ours": "1", "theirs": "1"}))
			Expect(got.Spec.Ports).To(ConsistOf(HaveField("Port", int32(80+i))))
			Expect(got.ManagedFields).NotTo(ContainElement(And(
				HaveField("Manager", render.FieldOwner), HaveField("Operation", Not(Equal(metav1.ManagedFieldsOperationApply))),
			)))
		}
		Expect(apply(api, child("llm", 81, nil))).To(Succeed(), "none are wanted")
		Expect(read("llm").Labels).To(BeEmpty())
		Expect(read("llm").Annotations).To(HaveLen(2))
		former := read("llm")
		delete(former.Annotations, render.AnnotationApplied)
		Expect(api.Update(ctx, former, client.FieldOwner("admin"))).To(Succeed())
		Expect(apply(api, child("llm", 81, nil))).To(Succeed())
		Expect(read("llm").Annotations).To(HaveKeyWithValue(render.AnnotationApplied, Not(BeEmpty())), "a child made by a former version was not applied")
		Expect(api.Create(ctx, child("somebodys", 80, nil))).To(Succeed())
		before = read("somebodys").ResourceVersion
		for _, c := range []client.Client{api, lagging{api}} {
			err := apply(c, child("somebodys", 81, nil))
			Expect(errors.As(err, new(*notOurs))).To(BeTrue(), "an object of another: %v", err)
			Expect(read("somebodys").ResourceVersion).To(Equal(before), "an object of another was written")
		}
	})
})
