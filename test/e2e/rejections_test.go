// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

// rejects has the kubelet of a host reject every pod that it gets, as one whose device plugin has lost a device, until the test is over.
func (w *world) rejects(host string) {
	w.t.Helper()
	pods, err := w.c.Watch(w.t.Context(), &corev1.PodList{}, client.InNamespace(w.name))
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, ended := w.t.Context(), make(chan struct{})
	go func() {
		defer GinkgoRecover()
		defer close(ended)
		for event := range pods.ResultChan() {
			pod, ok := event.Object.(*corev1.Pod)
			if !ok || pod.Spec.NodeName != w.node(host) || pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodFailed {
				continue
			}
			said := client.RawPatch("application/merge-patch+json", []byte(`{"status": {"phase": "Failed", "reason": "UnexpectedAdmissionError",
				"message": "Pod was rejected: Allocate failed due to no healthy devices", "conditions": null, "containerStatuses": null}}`))
			if err := w.c.Status().Patch(ctx, pod, said); client.IgnoreNotFound(err) != nil && ctx.Err() == nil {
				w.t.Errorf("rejecting pod %s: %v", pod.Name, err)
			}
		}
	}()
	w.t.Cleanup(func() { pods.Stop(); <-ended })
}

var _ = Describe("A host whose kubelet rejects pods", func() {
	// The kubelet of a host rejects its pods. After two of them the replica goes to another rack, although the host looks free, and the status names
	// the host and the kubelet's reason.
	It("comes last after two rejections, and is named in the status", func(ctx SpecContext) {
		w := newWorld(ctx, "rejecting", racks(1, 8, "a/r0", "a/r1")...)
		w.rejects("a-r0-0")
		w.create(w.graphOf("g", "", services{"Worker": worker(1, 1, 8, "rack")}))
		w.hasCondition("g", nvidiav1alpha1.ConditionReady, metav1.ConditionFalse, "pods_not_ready", "on node "+w.node("a-r0-0")+": UnexpectedAdmissionError")
		w.until("the host comes last", func() error {
			sg := &trellisv1alpha1.ScalingGroup{}
			if err := w.c.Get(ctx, key(w.name, "g-worker"), sg); err != nil {
				return err
			}
			for _, f := range sg.Status.FailedReplicas {
				for _, host := range f.Hosts {
					if host.Name == w.node("a-r0-0") && host.Rejections == 2 && host.Reason == "UnexpectedAdmissionError" {
						return nil
					}
				}
			}
			return fmt.Errorf("failures: %+v", sg.Status.FailedReplicas)
		})
		w.until("the replica is in the other rack", func() error {
			if got := w.domains("rack", w.all()...); !slices.Equal(got, []string{"a/r1"}) {
				return fmt.Errorf("it is in %v", got)
			}
			return nil
		})
		w.ready("g")
		w.hasEventOf(corev1.EventTypeNormal, "DynamoGraphDeployment", "g", "ReplicaMoved", "node "+w.node("a-r0-0")+" has rejected its pods")
	}, SpecTimeout(suite.Timeout()))
})
