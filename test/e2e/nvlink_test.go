// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

const (
	cliqueKey    = "nvidia.com/gpu.clique"
	channelClass = "compute-domain-default-channel.nvidia.com"
)

// computeDomainDefinition is derived from that of NVIDIA's driver: names, types, what is required, the default, and that the spec is immutable.
const computeDomainDefinition = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: computedomains.resource.nvidia.com}
spec:
  group: resource.nvidia.com
  names: {kind: ComputeDomain, listKind: ComputeDomainList, plural: computedomains, singular: computedomain}
  scope: Namespaced
  versions:
  - name: v1beta1
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            required: [channel, numNodes]
            x-kubernetes-validations: [{message: A computeDomain.spec is immutable, rule: self == oldSelf}]
            properties:
              numNodes: {type: integer}
              channel:
                type: object
                required: [resourceClaimTemplate]
                properties:
                  allocationMode: {type: string, default: Single, enum: [All, Single]}
                  resourceClaimTemplate: {type: object, required: [name], properties: {name: {type: string}}}
          status: {type: object, x-kubernetes-preserve-unknown-fields: true}
`

// createUntilTheEnd makes an object that no namespace has, and removes it with the spec.
func (w *world) createUntilTheEnd(o client.Object) {
	w.t.Helper()
	w.create(o)
	w.t.Cleanup(func() { _ = w.c.Delete(context.Background(), o) })
}

// publishChannels has each host offer one channel, as NVIDIA's driver does: a host is in one ComputeDomain at a time.
func (w *world) publishChannels(hosts ...host) {
	w.t.Helper()
	class := &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: channelClass}}
	class.Spec.Selectors = []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: `device.driver == "compute-domain.nvidia.com"`}}}
	w.createUntilTheEnd(class)
	for _, h := range hosts {
		w.createUntilTheEnd(sampleSlice(w.node(h.name), "compute-domain.nvidia.com", 1))
	}
}

// playDriver waits until the world has so many ComputeDomains, makes the claim template of each, as NVIDIA's driver does, and returns them by name.
func (w *world) playDriver(n int) []unstructured.Unstructured {
	w.t.Helper()
	domains := &unstructured.UnstructuredList{}
	domains.SetAPIVersion("resource.nvidia.com/v1beta1")
	domains.SetKind("ComputeDomainList")
	w.until(fmt.Sprintf("there are %d ComputeDomains", n), func() error {
		if err := w.c.List(w.t.Context(), domains, client.InNamespace(w.name)); err != nil {
			return err
		}
		if len(domains.Items) != n {
			return fmt.Errorf("%d", len(domains.Items))
		}
		return nil
	})
	for i := range domains.Items {
		name, _, err := unstructured.NestedString(domains.Items[i].Object, "spec", "channel", "resourceClaimTemplate", "name")
		w.must(err)
		template := &resourcev1.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: name}}
		template.Spec.Spec.Devices.Requests = []resourcev1.DeviceRequest{{Name: "channel", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: channelClass}}}
		w.create(template)
	}
	return domains.Items
}

var _ = Describe("An NVLink domain", Serial, func() {
	// Trellis makes the ComputeDomain that an annotation asks for, and the pods' claims. The driver's controller is played; the kube-scheduler allocates the
	// channels. All pods are in one clique, Placed names it, and the ComputeDomain goes with its deployment.
	It("is made for a deployment that asks for it, and its pods are in one clique", func(ctx SpecContext) {
		w := newWorld(ctx, "nvlink")
		definition := &apiextensionsv1.CustomResourceDefinition{}
		w.must(yaml.UnmarshalStrict([]byte(computeDomainDefinition), definition))
		w.createUntilTheEnd(definition)
		hosts := racks(2, 4, "a/r0", "a/r1")
		nodes := make([]corev1.Node, len(hosts))
		for i, h := range hosts {
			nodes[i] = w.newNode(h)
			nodes[i].Labels[cliqueKey] = "f7." + h.rack
		}
		w.must(w.cluster.AddNodes(ctx, nodes...))
		cliques := w.topology()
		cliques.Name += "-cliques"
		cliques.Spec.Levels = []grovev1alpha1.TopologyLevel{{Domain: "zone", Key: zoneKey}, {Domain: "clique", Key: cliqueKey}}
		w.createUntilTheEnd(cliques)

		dgd := w.graphOf("g", "clique", services{"Decode": worker(1, 1, 4, ""), "Prefill": worker(1, 1, 4, "")})
		dgd.Spec.TopologyConstraint.TopologyProfile = cliques.Name
		dgd.Annotations = map[string]string{"trellis.dev/compute-domain": "all"}
		w.create(dgd)
		w.publishChannels(hosts...)
		domain := &w.playDriver(1)[0]
		Expect(metav1.IsControlledBy(domain, w.dgd("g"))).To(BeTrue(), "the owner of %s", domain.GetName())
		w.ready("g")
		w.hasCondition("g", placed, metav1.ConditionTrue, "AllReplicasPlaced", "NVLink domain of the claims "+domain.GetName()+"-channel: Decode-0 (1 pod), Prefill-0 (1 pod) in clique f7.r0")
		Expect(w.all()).To(w.bePlacedInOne("rack"))

		Expect(w.c.Delete(ctx, w.dgd("g"))).To(Succeed())
		w.isGone(domain, domain.GetName())

		By("each replica has one of its own, and it goes with its replica")
		own := w.graphOf("own", "", services{"Decode": worker(2, 2, 4, "clique")})
		own.Spec.TopologyConstraint.TopologyProfile = cliques.Name
		own.Annotations = map[string]string{"trellis.dev/compute-domain": "all", "trellis.dev/compute-domain-per": "replica"}
		w.create(own)
		both := w.playDriver(2)
		w.ready("own")
		w.hasCondition("own", placed, metav1.ConditionTrue, "AllReplicasPlaced", both[0].GetName(), "Decode-0 (2 pods)", both[1].GetName(), "Decode-1 (2 pods)")
		w.scale("own", "Decode", 1)
		w.isGone(&both[1], both[1].GetName())
		w.ready("own")
		Expect(w.c.Delete(ctx, w.dgd("own"))).To(Succeed())
		w.isGone(&both[0], both[0].GetName())
	}, SpecTimeout(suite.Timeout()))
})
