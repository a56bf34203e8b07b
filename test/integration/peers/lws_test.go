// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	. "github.com/onsi/ginkgo/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/trellis-k8s/trellis/test/testutil/providertest"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

var _ = Describe("LeaderWorkerSet's definition", labelLWS, func() {
	It("takes sets whole, those that wait gated and those for KAI", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		dgd := deployment("sets")
		k := providertest.KAI(GinkgoTB(), dgd)
		for _, set := range providertest.Sets(providertest.Groups(GinkgoTB(), dgd, "Gates"), nil) {
			accepted(ctx, sent(set, ""), metav1.DryRunAll)
		}
		for _, set := range providertest.Sets(k.Groups, k.Prepare) {
			accepted(ctx, sent(set, ""), metav1.DryRunAll)
		}
	})
})
