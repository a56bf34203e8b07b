// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package nodes

import (
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/trellis-k8s/trellis/internal/provider/specs"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

// under adds an annotation to a deployment.
func under(manifest, annotation, value string) string {
	return strings.Replace(manifest, "annotations: {", "annotations: {"+annotation+": "+value+", ", 1)
}

var _ = Describe("A gang whose pods are not created or not placed by Trellis alone", func() {
	DescribeTable("exchanges data at first, after a lost pod, and after an update", func(ctx SpecContext, annotation, value string) {
		w := newWorld(ctx)
		w.measured("Ready at first", func() {
			w.apply(under(half, annotation, value))
			w.ready("duo")
		})
		w.exchanged("names at first")
		leader, follower := w.gang()
		Expect(rackOf(ctx, leader)).To(Equal(rackOf(ctx, follower)), "the rack of both")
		w.measured("Ready after a lost pod", func() {
			Expect(api.Delete(ctx, leader)).To(Succeed())
			w.renewed(leader, follower)
			w.ready("duo")
		})
		w.exchanged("names after a lost pod")
		leader, follower = w.gang()
		w.measured("Ready after an update", func() {
			w.update("duo")
			w.renewed(leader, follower)
			w.ready("duo")
		})
		w.exchanged("names after an update")
	},
		Entry("with PodGroups of Kubernetes", SpecTimeout(suite.Timeout()), render.AnnotationProvider, specs.PodGroup.Name),
		Entry("with LeaderWorkerSet", SpecTimeout(suite.Timeout()), render.AnnotationWorkload, specs.LeaderWorkerSet),
	)
})
