// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

var _ = Describe("Names of graphs and services", func() {
	// Names as long as Kubernetes takes them, in CamelCase, become pods and Services; names that become one are refused.
	It("may be as long as Kubernetes takes them, and are refused when they become one", func(ctx SpecContext) {
		w := newWorld(ctx, "names", racks(2, 8, "a/r0")...)
		graph := strings.Repeat("llama-", 10) + "end"
		service := strings.Repeat("DecodeWorker", 5) + "End"
		Expect(graph).To(HaveLen(validation.DNS1123LabelMaxLength))
		Expect(service).To(HaveLen(validation.DNS1123LabelMaxLength))
		w.create(w.graphOf(graph, "zone", services{service: worker(1, 2, 8, "rack"), "Frontend": frontend(2)}))
		w.ready(graph)
		for _, pod := range w.all() {
			Expect(len(pod.Name)).To(BeNumerically("<=", validation.DNS1123LabelMaxLength), pod.Name)
			Expect(pod.Spec.Hostname).To(BeElementOf("", pod.Name))
		}
		for _, s := range list(w, &corev1.ServiceList{}).Items {
			Expect(s.Spec.ClusterIP).NotTo(BeEmpty(), "the address of Service %s", s.Name)
		}

		collides := w.graphOf("collides", "zone", services{"Worker": worker(1, 1, 1, ""), "wOrker": worker(1, 1, 1, "")})
		Expect(w.c.Create(ctx, collides)).To(MatchError(ContainSubstring("service names must be unique in lower case")))
	}, SpecTimeout(suite.Timeout()))
})
