// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package dynamographdeployment

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

var _ = Describe("A deployment that was deleted and created again", func() {
	DescribeTable("does not get the status of the deleted one, which the cache still shows:",
		func(ctx SpecContext, next func(*nvidiav1beta1.DynamoGraphDeploymentStatus)) {
			namespace := suite.Namespace(api)
			create := func() *nvidiav1beta1.DynamoGraphDeployment {
				dgd := &nvidiav1beta1.DynamoGraphDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "g"}}
				dgd.Spec.Components = []nvidiav1beta1.ComponentSpec{{Name: "Worker", Type: nvidiav1beta1.ComponentTypeWorker}}
				Expect(api.Create(ctx, dgd)).To(Succeed())
				return dgd
			}
			deleted := create()
			deleted.Status.Components = map[string]nvidiav1beta1.ComponentStatus{
				"Worker": {ComponentKind: "ScalingGroup", ComponentNames: []string{"g-worker"}, Replicas: 1},
			}
			Expect(api.Status().Update(ctx, deleted)).To(Succeed())
			Expect(api.Delete(ctx, deleted)).To(Succeed())
			created := create()

			status := *deleted.Status.DeepCopy()
			next(&status)
			recorder := events.NewFakeRecorder(10)
			r := &Reconciler{Deployments: api, Recorder: recorder}
			_, err := r.report(ctx, observed{dgd: deleted}, status)
			Expect(err).NotTo(HaveOccurred())
			Expect(api.Get(ctx, client.ObjectKeyFromObject(created), created)).To(Succeed())
			Expect(created.Status).To(Equal(nvidiav1beta1.DynamoGraphDeploymentStatus{}))
			Expect(recorder.Events).To(BeEmpty())
		},
		Entry("a state", SpecTimeout(suite.Timeout()), func(s *nvidiav1beta1.DynamoGraphDeploymentStatus) {
			s.State = nvidiav1beta1.StateFailed
		}),
		Entry("counts, which alone are not valid", SpecTimeout(suite.Timeout()), func(s *nvidiav1beta1.DynamoGraphDeploymentStatus) {
			of := s.Components["Worker"]
			of.ReadyReplicas = ptr.To[int32](1)
			s.Components["Worker"] = of
		}),
		Entry("a condition, which events tell", SpecTimeout(suite.Timeout()), func(s *nvidiav1beta1.DynamoGraphDeploymentStatus) {
			s.Conditions = []metav1.Condition{{
				Type: nvidiav1beta1.ConditionPlaced, Status: metav1.ConditionFalse, Reason: "InsufficientCapacity", Message: "none", LastTransitionTime: metav1.Now(),
			}}
		}),
	)
})
