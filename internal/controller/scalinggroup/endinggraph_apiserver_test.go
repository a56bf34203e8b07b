// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scalinggroup

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

var _ = Describe("A deployment that is being deleted and that a finalizer keeps", func() {
	type way struct {
		finalizers []string
		policy     metav1.DeletionPropagation
	}
	DescribeTable("has what serves go on, and no lost pod recreated, when it was deleted", func(ctx SpecContext, deleted way) {
		s := newServer(ctx)
		dgd := &nvidiav1beta1.DynamoGraphDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: "g", Finalizers: deleted.finalizers}}
		dgd.Spec.Components = []nvidiav1beta1.ComponentSpec{{Name: "Worker"}}
		Expect(s.c.Create(ctx, dgd)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) {
			Expect(s.c.Patch(ctx, dgd, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`)))).To(Succeed())
		})
		sg := s.startable(group(3, 2))
		sg.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(dgd, nvidiav1beta1.GroupVersion.WithKind("DynamoGraphDeployment"))}
		Expect(s.c.Create(ctx, sg)).To(Succeed())
		s.settle()
		for ordinal := range 3 {
			s.run(ordinal)
		}
		s.expect("all run", "0-0:new 0-1:new 1-0:new 1-1:new 2-0:new 2-1:new | 3 there, 3 updated, 3 ready, 0 outdated")

		Expect(s.c.Delete(ctx, dgd, client.PropagationPolicy(deleted.policy))).To(Succeed())
		Eventually(ctx, func() error { return s.c.Get(ctx, client.ObjectKeyFromObject(dgd), dgd) }).Should(Succeed())
		Expect(dgd.DeletionTimestamp).NotTo(BeNil())
		for _, pod := range s.pods() {
			if pod.Name == "g-worker-1-1" {
				Expect(s.c.Delete(ctx, &pod, client.GracePeriodSeconds(0))).To(Succeed())
			}
		}
		s.expect("a pod is lost: what is left of its replica ends, and that is reported",
			"0-0:new 0-1:new 2-0:new 2-1:new | 2 there, 2 updated, 2 ready, 0 outdated")
		s.change(func(spec *trellisv1alpha1.ScalingGroupSpec) { spec.Revision = "newer" })
		s.expect("an update that had just begun ends nothing that serves, since nothing would follow it",
			"0-0:new 0-1:new 2-0:new 2-1:new | 2 there, 0 updated, 2 ready, 2 outdated")
		s.change(func(spec *trellisv1alpha1.ScalingGroupSpec) {
			spec.Restart = &trellisv1alpha1.Restart{ID: "now", Stop: true}
		})
		s.expect("nor does a restart", "0-0:new 0-1:new 2-0:new 2-1:new | 2 there, 0 updated, 2 ready, 2 outdated")
		Expect(render.EditOf(s.group())).To(BeNil(), "the spec counts as one of the graph controller")
	}, suite.Entries(map[string]way{
		"in the background": {[]string{"example.com/others"}, metav1.DeletePropagationBackground},
		"in the foreground": {nil, metav1.DeletePropagationForeground}, // the garbage collector's own finalizer; it does not run here
	}, SpecTimeout(suite.Timeout())))
})
