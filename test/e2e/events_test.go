// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"

	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

var _ = Describe("A scale-out into free capacity", func() {
	// A deployment that is scaled out into free capacity is no reason to worry: there is no Warning about it.
	It("causes no Warning", func(ctx SpecContext) {
		w := newWorld(ctx, "no-warnings", racks(2, 8, "a/r0", "a/r1")...)
		w.create(w.graphOf("g", "zone", services{"Worker": worker(1, 2, 8, "rack"), "Frontend": frontend(1)}))
		w.ready("g")
		w.scale("g", "Worker", 2)
		w.ready("g")
		Expect(w.all()).To(HaveLen(5))
		for _, e := range list(w, &eventsv1.EventList{}).Items {
			if e.Regarding.Kind == "DynamoGraphDeployment" {
				Expect(e.Type).NotTo(Equal(corev1.EventTypeWarning), "%s: %s", e.Reason, e.Note)
			}
		}
	}, SpecTimeout(suite.Timeout()))
})
