// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"maps"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

// addHostsOf adds hosts with GPUs of a product.
func (w *world) addHostsOf(product string, hosts ...host) {
	w.t.Helper()
	nodes := make([]corev1.Node, len(hosts))
	for i, h := range hosts {
		nodes[i] = w.newNode(h)
		nodes[i].Labels[productKey] = product
	}
	w.must(w.cluster.AddNodes(w.t.Context(), nodes...))
}

// onProduct has pods of a component select hosts of a product.
func onProduct(s *nvidiav1alpha1.ServiceSpec, product string) *nvidiav1alpha1.ServiceSpec {
	return withPodSpec(s, corev1.PodSpec{NodeSelector: map[string]string{productKey: product}})
}

// products are those of the hosts of pods, each once.
func (w *world) products(pods []corev1.Pod) []string {
	w.t.Helper()
	found := map[string]bool{}
	for i := range pods {
		found[get(w, &corev1.Node{}, "", pods[i].Spec.NodeName).Labels[productKey]] = true
	}
	return slices.Sorted(maps.Keys(found))
}

var _ = Describe("A cluster with two kinds of hosts", func() {
	// One graph in one zone: each decode replica in one rack of GB200 hosts, prefill anywhere in the zone on H100 hosts. Zone b has more GB200 hosts and no
	// H100, so the graph goes to zone a. What does not fit there waits, although zone b has capacity, and reports which hosts it cannot use.
	It("has decode on the one and prefill on the other, each by its own selector and level", func(ctx SpecContext) {
		w := newWorld(ctx, "pools")
		w.addHostsOf("GB200", racks(2, 4, "a/r0", "a/r1", "b/r0", "b/r1", "b/r2")...)
		w.addHostsOf("H100", racks(2, 8, "a/r2", "a/r3")...)
		w.create(w.graphOf("g", "zone", services{
			"Decode":  onProduct(worker(1, 2, 4, "rack"), "GB200"),
			"Prefill": onProduct(worker(1, 3, 8, ""), "H100"),
		}))
		w.ready("g")
		Expect(w.of("")).To(w.bePlacedIn("zone", "a"))
		Expect(w.products(w.of("Decode"))).To(HaveExactElements("GB200"))
		Expect(w.products(w.of("Prefill"))).To(HaveExactElements("H100"))
		Expect(w.of("Prefill")).To(w.bePlacedIn("rack", "a/r2", "a/r3"))

		w.scale("g", "Decode", 2)
		w.ready("g")
		w.eachInOne("Decode", "rack", 2)
		w.in("Decode", "rack", "a/r0", "a/r1")

		w.scale("g", "Decode", 3)
		w.waitsFor("InsufficientCapacity", "Decode-2", "needs 2 pods x 4 nvidia.com/gpu in one rack inside a")
		w.nothingReleasedOf("Decode", 2)
	}, SpecTimeout(suite.Timeout()))
})
