// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/provider/grove"
	"github.com/trellis-k8s/trellis/internal/topologybinding"
	"github.com/trellis-k8s/trellis/test/testutil/providertest"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

func schemaOf(shape grove.Shape) grove.Schema {
	GinkgoHelper()
	d, served := grove.ReadSchema(groves[shape])
	Expect(served).To(BeTrue(), "%s is not served", shape)
	return d
}

var _ = Describe("Grove's definitions", labelGrove, func() {
	It("take the PodCliqueSet of their own release whole, and refuse that of another", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		g := providertest.Grove(GinkgoTB(), deployment("shapes"))
		for shape := range groves {
			created := accepted(ctx, sent(grove.Render(g, schemaOf(shape)), shape))
			Expect(providertest.SketchGrove(read[grove.PodCliqueSet](created))).To(ContainSubstring("decode 2 (least 1) in one block"), "%s", shape)
		}
		refused(ctx, sent(grove.Render(g, schemaOf(grove.ShapeNamed)), grove.ShapePack), "packDomain")
		refused(ctx, sent(grove.Render(g, schemaOf(grove.ShapePack)), grove.ShapePackDomain), "pack")
		refused(ctx, sent(grove.Render(g, schemaOf(grove.ShapeNamed)), grove.ShapePackDomain), "topologyName")
		refused(ctx, sent(grove.Render(g, schemaOf(grove.ShapePack)), grove.ShapeNamed), "pack")
	})

	It("keep the status that says whether the topology is available, gone, or back", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		object := accepted(ctx, sent(grove.Render(providertest.Grove(GinkgoTB(), deployment("gone")), schemaOf(grove.ShapePack)), ""))
		_, judged := grove.TopologyLevels(read[grove.PodCliqueSet](object))
		Expect(judged).To(BeFalse(), "judged before Grove wrote a status")
		for _, c := range []struct {
			status, reason, want string
			available            bool
		}{
			{"False", "AllClusterTopologyLevelsAvailable", nvidiav1alpha1.ReasonAllTopologyLevelsAvailable, true},
			{"True", "ClusterTopologyLevelsUnavailable", nvidiav1alpha1.ReasonTopologyLevelsUnavailable, false},
			{"Unknown", "ClusterTopologyNotFound", nvidiav1alpha1.ReasonTopologyDefinitionNotFound, false},
			{"False", "AllClusterTopologyLevelsAvailable", nvidiav1alpha1.ReasonAllTopologyLevelsAvailable, true},
		} {
			object = status(ctx, object, `
  availableReplicas: 0
  updatedReplicas: 0
  conditions: [{type: TopologyLevelsUnavailable, status: "`+c.status+`", reason: `+c.reason+`, message: words, lastTransitionTime: "2026-01-01T00:00:00Z", observedGeneration: 1}]`)
			got, judged := grove.TopologyLevels(read[grove.PodCliqueSet](object))
			Expect(judged).To(BeTrue(), "%s/%s", c.status, c.reason)
			Expect(got).To(And(HaveField("Reason", c.want), HaveField("Available", c.available)), "%s/%s", c.status, c.reason)
		}
	})

	It("keep the counts of the objects that Grove makes, which become those of services", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		g := providertest.Grove(GinkgoTB(), deployment("counts"))
		pcs := grove.Render(g, schemaOf(grove.ShapePack))
		made := groveMakes(ctx, namespace, "counts", pcs.Spec.Template.Cliques[2], "counts-0-frontend")
		clique := read[grove.PodClique](status(ctx, made, `
  {observedGeneration: 1, replicas: 2, readyReplicas: 2, scheduledReplicas: 2, updatedReplicas: 2, scheduleGatedReplicas: 0}`))
		Expect(grove.SingleNode(g, g.Groups[1], clique)).To(And(HaveField("Done", true), HaveField("Name", made.GetName()), HaveField("Waiting", "")))

		made = groveMakesGroup(ctx, namespace, "counts", "counts-0-decode", 2, "decode-ldr", "decode-wkr")
		decode := read[grove.PodCliqueScalingGroup](status(ctx, made, `
  {observedGeneration: 1, replicas: 2, availableReplicas: 1, scheduledReplicas: 1, updatedReplicas: 2}`))
		Expect(grove.Multinode(g, g.Groups[0], decode)).To(And(HaveField("Done", false), HaveField("Name", made.GetName()),
			HaveField("Waiting", "PodCliqueScalingGroup counts-0-decode: 1 of 2 replicas scheduled")))
		Expect(grove.Scales(g)).To(HaveEach(HaveField("UsualName()", Or(Equal("counts-0-frontend"), Equal("counts-0-decode")))), "objects to scale")
	})

	It("take a ClusterTopologyBinding whole, and let its levels change", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		ct := providertest.Topology()
		ct.Name = "binding"
		binding, err := grove.RenderBinding(ct, ct.Name)
		Expect(err).NotTo(HaveOccurred())
		created := accepted(ctx, sent(binding, ""))
		Expect(grove.BindingDrift(ct, read[topologybinding.Binding](created))).To(BeEmpty())
		ct.Spec.Levels = ct.Spec.Levels[1:]
		shorter, err := grove.RenderBinding(ct, ct.Name)
		Expect(err).NotTo(HaveOccurred())
		changed := apply(ctx, sent(shorter, ""), "trellis")
		Expect(read[topologybinding.Binding](changed).Spec.Levels).To(HaveLen(3))
	})
})
