// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"net/http"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-k8s/trellis/internal/topologybinding"
	"github.com/trellis-k8s/trellis/test/integration/peers/definitions"
	"github.com/trellis-k8s/trellis/test/testutil/apiserver"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

// withBindings serves ClusterTopologyBindings until the spec ends.
func (s *server) withBindings() {
	GinkgoHelper()
	crd, err := definitions.Load("grove/grove.io_clustertopologybindings.yaml")
	Expect(err).NotTo(HaveOccurred())
	Expect(apiserver.Install(s.env.Config, crd)).To(Succeed())
	DeferCleanup(func(ctx SpecContext) {
		crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: crd.Name}}
		Expect(s.admin.Delete(ctx, crd)).To(Succeed())
		Eventually(ctx, func() bool {
			return apierrors.IsNotFound(s.admin.Get(ctx, client.ObjectKeyFromObject(crd), crd))
		}).Should(BeTrue(), "the definition is gone")
	})
}

var _ = Describe("Admission of a deployment that names a ClusterTopologyBinding", func() {
	It("checks it against the Binding", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		s := newServer(ctx)
		transfer := strings.Replace(packed, "spec:\n", "spec:\n  experimental: {kvTransferPolicy: {clusterTopologyName: grove, domain: rack}}\n", 1)
		s.wantRefused(s.tryCreate(readDeployment("grove", packed)), "ClusterTopology not found", `"grove"`)

		s.withBindings()
		b := &topologybinding.Binding{ObjectMeta: metav1.ObjectMeta{Name: "grove"}}
		b.Spec.Levels = []topologybinding.Level{{Domain: "zone", Key: "z"}, {Domain: "rack", Key: "r"}}
		s.create(b)
		s.wantRefused(s.tryCreate(readDeployment("grove", packedBut("packDomain: rack", "packDomain: chassis"))),
			"spec.services[Worker].topologyConstraint.packDomain", `does not exist in ClusterTopologyBinding "grove"`, "[zone, rack]")
		s.wantRefused(s.tryCreate(readDeployment("grove", strings.Replace(transfer, "domain: rack", "domain: chassis", 1))),
			`does not exist in ClusterTopologyBinding "grove"`)
		dgd := readDeployment("grove", transfer)
		s.create(dgd)

		By("one that is no topology is named, with the fix")
		broken := &topologybinding.Binding{ObjectMeta: metav1.ObjectMeta{Name: "broken"}}
		broken.Spec.Levels = []topologybinding.Level{{Domain: "zone", Key: "z"}, {Domain: "rack", Key: "z"}}
		s.create(broken)
		status, _ := s.post(readDeployment("broken", packed))
		Expect(status.Code).To(BeEquivalentTo(http.StatusInternalServerError))
		Expect(status.Message).To(And(ContainSubstring(`ClusterTopologyBinding "broken" cannot be used: spec.levels[1].key`),
			ContainSubstring("correct the ClusterTopologyBinding")))

		By("changes of the Binding warn of their effect")
		change := func(f func()) func() error {
			return func() error {
				s.get(b)
				f()
				return s.admin.Update(ctx, b)
			}
		}
		used := dgd.GetNamespace() + "/" + dgd.GetName()
		s.wantWarnings(change(func() { b.Spec.Levels = b.Spec.Levels[:1] }), `level "rack" is removed while in use; running pods stay where they are (`+used+")")
		s.wantWarnings(change(func() { b.Spec.Levels = append(b.Spec.Levels, topologybinding.Level{Domain: "rack", Key: "r"}) }))
		unread := "metadata.annotations[trellis.dev/node-selector]"
		Expect(s.warnings(change(func() { b.Annotations = map[string]string{topologybinding.AnnotationNodeSelector: "pool"} }))).To(
			ContainElement(HavePrefix(unread)))
		s.wantWarnings(change(func() { b.Annotations = nil }))
		Expect(s.warnings(func() error { return s.admin.Delete(ctx, b, client.DryRunAll) })).To(
			ContainElement(HavePrefix(`ClusterTopologyBinding "grove" is in use`)))

		By("a ClusterTopology of that name counts")
		s.create(topology("grove"))
		other := readDeployment("grove", packedBut("packDomain: rack", "packDomain: block"))
		other.SetName("other")
		s.create(other)
		Expect(s.warnings(func() error { return s.admin.Delete(ctx, b, client.DryRunAll) })).To(BeEmpty())
	})
})
