// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/test/testutil/graphs"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

var _ = Describe("A scaling group that another client edits", func() {
	const edited = "example.com/edited:1"
	// edit changes the group as kubectl edit does.
	edit := func(b *bare, name client.ObjectKey, change func(*trellisv1alpha1.ScalingGroupSpec)) {
		GinkgoHelper()
		Expect(retry.RetryOnConflict(retry.DefaultBackoff, func() error {
			sg := &trellisv1alpha1.ScalingGroup{}
			if err := b.c.Get(b.ctx, name, sg); err != nil {
				return err
			}
			change(&sg.Spec)
			return b.c.Update(b.ctx, sg, client.FieldOwner("kubectl-edit"))
		})).To(Succeed())
	}
	image := func(spec *trellisv1alpha1.ScalingGroupSpec) {
		spec.Roles[0].Template.Spec.Containers[0].Image = edited
	}
	// restored explains why the group has not the spec of before, why a pod runs the edited image, or why no event reports it.
	restored := func(b *bare, name client.ObjectKey, before *trellisv1alpha1.ScalingGroup, fields string) error {
		sg := &trellisv1alpha1.ScalingGroup{}
		if err := b.c.Get(b.ctx, name, sg); err != nil {
			return err
		}
		if got := sg.Spec.Roles[0].Template.Spec.Containers[0].Image; got == edited || sg.Spec.Revision != before.Spec.Revision {
			return fmt.Errorf("the group has the image %s and the revision %s", got, sg.Spec.Revision)
		}
		pods := b.pods(name.Namespace)
		if len(pods) != 2 {
			return fmt.Errorf("%d pods, want 2", len(pods))
		}
		for i := range pods {
			if pods[i].Spec.Containers[0].Image == edited {
				return StopTrying(fmt.Sprintf("pod %s has the edited image", pods[i].Name))
			}
		}
		events := &eventsv1.EventList{}
		if err := b.c.List(b.ctx, events, client.InNamespace(name.Namespace)); err != nil {
			return err
		}
		for i := range events.Items {
			if e := &events.Items[i]; e.Reason == "SpecRestored" && e.Regarding.Kind == "DynamoGraphDeployment" &&
				strings.Contains(e.Note, "ScalingGroup g-worker: kubectl-edit changed "+fields+" of its spec") {
				return nil
			}
		}
		return fmt.Errorf("no event SpecRestored with %q among %d", fields, len(events.Items))
	}

	DescribeTable("gets its spec back, and no pod is made from the edited one", func(ctx SpecContext, down bool, change func(*trellisv1alpha1.ScalingGroupSpec), fields string) {
		b := newBare(ctx)
		dgd := deployment(newNamespace(b.c), graphs.Components{"Worker": graphs.Worker(1, 2, 8, "")})
		Expect(b.c.Create(ctx, dgd)).To(Succeed())
		b.until("it has its pods", func() error { return b.belongs(dgd, "g-worker", "g-worker-0-0 g-worker-0-1") })
		name, before := client.ObjectKey{Namespace: dgd.Namespace, Name: "g-worker"}, &trellisv1alpha1.ScalingGroup{}
		Expect(b.c.Get(ctx, name, before)).To(Succeed())
		if down {
			By("a pod is lost meanwhile")
			b.stop()
			lost := b.pods(dgd.Namespace)[0]
			Expect(b.c.Delete(ctx, &lost, client.GracePeriodSeconds(0))).To(Succeed())
		}
		edit(b, name, change)
		if down {
			b.start()
		}
		b.until("the spec is applied again", func() error {
			b.endPods(dgd.Namespace)
			return restored(b, name, before, fields)
		})
	},
		Entry("the image and the revision, while the operator runs", SpecTimeout(suite.Timeout()), false,
			func(spec *trellisv1alpha1.ScalingGroupSpec) { image(spec); spec.Revision = "edited" }, "revision, roles"),
		Entry("the image and the revision, while it is down", SpecTimeout(suite.Timeout()), true,
			func(spec *trellisv1alpha1.ScalingGroupSpec) { image(spec); spec.Revision = "edited" }, "revision, roles"),
		Entry("the image alone, while it is down", SpecTimeout(suite.Timeout()), true, image, "roles"),
	)
})
