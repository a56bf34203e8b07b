// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

var _ = Describe("A deleted pod that does not end", func() {
	// A pod that was deleted does not end. The status and kubectl trellis explain name the pod and its node. When the node turns NotReady, no one will
	// confirm the end: the replica is made under another ordinal, elsewhere. Once the node is back the pod ends, and nothing else happens.
	It("is named in the status, and is replaced under another ordinal when its node is not ready", func(ctx SpecContext) {
		w := newWorld(ctx, "not-ending", racks(1, 8, "a/r0", "a/r1")...)
		w.create(w.graphOf("g", "", services{"Worker": worker(1, 1, 8, "rack")}))
		w.ready("g")
		pod := w.all()[0]
		dead := pod.Spec.NodeName
		w.staying(&pod)
		Expect(w.c.Delete(ctx, &pod, client.GracePeriodSeconds(1))).To(Succeed())
		says := "pod g-worker-0 on node " + dead + " has been terminating since"
		w.hasCondition("g", nvidiav1alpha1.ConditionPlaced, metav1.ConditionFalse, gang.CodePodsNotEnding, says)
		w.hasCondition("g", nvidiav1alpha1.ConditionReady, metav1.ConditionFalse, "pods_not_ready", says)
		said, _ := w.kubectlTrellis(0, "explain", "dgd/g")
		w.says(said, gang.CodePodsNotEnding, "g-worker-0 on node "+dead)
		Expect(w.cluster.StopKubelet(ctx, dead)).To(Succeed())

		w.ready("g")
		running := w.all()
		Expect(running).To(HaveLen(1))
		Expect(running[0].Name).To(Equal("g-worker-1"))
		Expect(running[0].Spec.NodeName).NotTo(Equal(dead))
		w.hasCondition("g", nvidiav1alpha1.ConditionPlaced, metav1.ConditionTrue, "AllReplicasPlaced")
		Expect(w.cluster.StartKubelet(ctx, dead)).To(Succeed())
		w.leaves(&pod)
		w.until("only the new pod is there", func() error {
			pods := list(w, &corev1.PodList{}).Items
			if !slices.EqualFunc(pods, running, func(a, b corev1.Pod) bool { return a.UID == b.UID }) {
				return fmt.Errorf("there are %d pods", len(pods))
			}
			return nil
		})
		w.ready("g")
	}, SpecTimeout(suite.Timeout()))
})
