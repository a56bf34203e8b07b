// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"errors"
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	"github.com/trellis-k8s/trellis/test/testutil/graphs"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

var _ = Describe("A pod that waits for a Secret on its node", func() {
	It("is reported with the event of its kubelet", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		b := newBare(ctx)
		node := b.hosts(1)[0]
		namespace := newNamespace(b.c)
		worker := graphs.Worker(1, 1, 0, "")
		worker.Resources = nil
		dgd := deployment(namespace, graphs.Components{"Worker": worker})
		Expect(b.c.Create(ctx, dgd)).To(Succeed())
		var pod corev1.Pod
		b.until("the pod is on its node", func() error {
			pods := b.pods(namespace)
			if len(pods) != 1 {
				return fmt.Errorf("%d pods", len(pods))
			}
			pod = pods[0]
			if len(pod.Spec.SchedulingGates) > 0 {
				return errors.New("it has a gate")
			}
			target := &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: node}}
			return b.c.SubResource("binding").Create(ctx, &pod, target)
		})
		Expect(b.c.Create(ctx, &corev1.Event{
			ObjectMeta:     metav1.ObjectMeta{Namespace: namespace, Name: "told"},
			InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: namespace, Name: pod.Name, UID: pod.UID},
			Type:           corev1.EventTypeWarning, Reason: "FailedMount", Message: `secret "absent" not found`,
			Source: corev1.EventSource{Component: "kubelet"}, FirstTimestamp: metav1.NewTime(time.Now()), LastTimestamp: metav1.NewTime(time.Now()),
		})).To(Succeed())
		b.until("Ready says it", func() error {
			c := b.condition(dgd, nvidiav1alpha1.ConditionReady)
			if c == nil || !strings.Contains(c.Message, "pod "+pod.Name+`: FailedMount: secret "absent" not found`) {
				return fmt.Errorf("it is %+v", c)
			}
			return nil
		})
	})
})
