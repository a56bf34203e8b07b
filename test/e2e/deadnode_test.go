// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/test/testutil/tier"
)

// A pod that was deleted does not end. The status and kubectl trellis explain name the pod and its node. When the node turns NotReady, nobody will
// confirm the end: the replica is made under another ordinal, elsewhere. Once the node is back the pod ends, and nothing else happens.
func TestPodThatDoesNotEnd(t *testing.T) {
	tier.All(t)
	w := newWorld(t, "not-ending", racks(1, 8, "a/r0", "a/r1")...)
	w.create(w.graphOf("g", "", services{"Worker": worker(1, 1, 8, "rack")}))
	w.ready("g")
	pod := w.all()[0]
	dead := pod.Spec.NodeName
	w.staying(&pod)
	if err := w.c.Delete(t.Context(), &pod, client.GracePeriodSeconds(1)); err != nil {
		t.Fatal(err)
	}
	says := "pod g-worker-0 on node " + dead + " has been terminating since"
	w.hasCondition("g", nvidiav1alpha1.ConditionPlaced, metav1.ConditionFalse, gang.CodePodsNotEnding, says)
	w.hasCondition("g", nvidiav1alpha1.ConditionReady, metav1.ConditionFalse, "pods_not_ready", says)
	said, _ := w.kubectlTrellis(0, "explain", "dgd/g")
	w.says(said, gang.CodePodsNotEnding, "g-worker-0 on node "+dead)
	if err := w.cluster.StopKubelet(t.Context(), dead); err != nil {
		t.Fatal(err)
	}

	w.ready("g")
	running := w.all()
	if len(running) != 1 || running[0].Name != "g-worker-1" || running[0].Spec.NodeName == dead {
		t.Fatalf("%d pods run, the first is %s on %s", len(running), running[0].Name, running[0].Spec.NodeName)
	}
	w.hasCondition("g", nvidiav1alpha1.ConditionPlaced, metav1.ConditionTrue, "AllReplicasPlaced")
	if err := w.cluster.StartKubelet(t.Context(), dead); err != nil {
		t.Fatal(err)
	}
	w.leaves(&pod)
	w.until("only the new pod is there", func() error {
		pods := list(w, &corev1.PodList{}).Items
		if !slices.EqualFunc(pods, running, func(a, b corev1.Pod) bool { return a.UID == b.UID }) {
			return fmt.Errorf("there are %d pods", len(pods))
		}
		return nil
	})
	w.ready("g")
}
