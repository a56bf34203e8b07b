// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	eventsv1 "k8s.io/api/events/v1"

	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

var _ = Describe("Gangs that share racks", func() {
	// Two gangs of half a rack each are created at the same time, and the kube-scheduler chooses their hosts. Whichever it gives to the first
	// ones, the others are bound, and no gang is requeued.
	It("are bound at once, whichever hosts the kube-scheduler chooses", func(ctx SpecContext) {
		const graphs = 24
		var paths []string
		for i := range graphs / 2 {
			paths = append(paths, fmt.Sprintf("a/r%d", i))
		}
		w := newWorld(ctx, "halves", racks(8, 8, paths...)...)
		for i := range graphs {
			w.create(w.graphOf(fmt.Sprintf("g%d", i), "", services{"Worker": worker(1, 4, 8, "rack")}))
		}
		for i := range graphs {
			w.ready(fmt.Sprintf("g%d", i))
		}
		events := list(w, &eventsv1.EventList{})
		for i := range events.Items {
			Expect(events.Items[i].Reason).NotTo(Equal(gang.CodeRequeued), "%s: %s", events.Items[i].Regarding.Name, events.Items[i].Note)
		}
	}, SpecTimeout(suite.Timeout()))
})
