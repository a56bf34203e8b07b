// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"maps"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/rollout"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

var _ = Describe("A rolling update", func() {
	// One replica more than wanted has capacity: the update goes through it and no replica is ever missing; afterwards there are as many as
	// wanted. A second update finds its way too.
	It("goes through one replica more where there is capacity for it, and none is ever missing", func(ctx SpecContext) {
		w := newWorld(ctx, "surge", racks(2, 8, "a/r0", "a/r1", "a/r2", "b/r0")...)
		dgd := w.graphOf("g", "zone", services{"Worker": worker(2, 2, 8, "rack")})
		dgd.Spec.Services["Worker"].Annotations = bounds("0", "1")
		w.create(dgd)
		w.ready("g")
		watcher := w.follow()
		for _, image := range []string{"example.com/vllm:2", "example.com/vllm:3"} {
			watcher.expect("Worker", 2, 3)
			w.setImage("g", "Worker", image)
			w.until("all replicas run "+image, func() error { return w.runs(image, 4) })
			w.ready("g")
		}
		watcher.stop()
		Expect(w.all()).To(w.bePlacedIn("zone", "a"))
		s := w.dgd("g").Status
		counts := s.Services["Worker"]
		Expect([]int32{counts.Replicas, counts.UpdatedReplicas, *counts.ReadyReplicas, *counts.AvailableReplicas}).To(HaveEach(BeEquivalentTo(2)))
		Expect(s.RollingUpdate).NotTo(BeNil())
		Expect(s.RollingUpdate.Phase).To(Equal(nvidiav1alpha1.RollingUpdateCompleted))
		Expect(s.RollingUpdate.EndTime).NotTo(BeNil())
		Expect(s.RollingUpdate.UpdatedServices).To(Equal([]string{"Worker"}))
	}, SpecTimeout(suite.Timeout()))

	// There is no capacity for one more in the graph's zone, although another zone is empty, and nothing may be missing: the update waits and
	// is reported, the old revision serves, and it continues when there is capacity.
	It("waits for capacity in the zone of the graph while the old revision serves", func(ctx SpecContext) {
		w := newWorld(ctx, "no-surge", racks(2, 8, "a/r0", "a/r1", "b/r0", "b/r1", "b/r2", "b/r3")...)
		blocker := w.occupy("other", "a-r1-0", 8)
		blockers := []*corev1.Pod{w.occupy("other-1", "b-r0-0", 8), w.occupy("other-2", "b-r1-0", 8), w.occupy("other-3", "b-r2-0", 8), w.occupy("other-4", "b-r3-0", 8)}
		dgd := w.graphOf("g", "zone", services{"Worker": worker(1, 2, 8, "rack")})
		dgd.Spec.Services["Worker"].Annotations = bounds("0", "1")
		w.create(dgd)
		w.ready("g")
		Expect(w.all()).To(w.bePlacedIn("rack", "a/r0"))
		for _, pod := range blockers {
			w.remove(pod)
		}
		watcher := w.follow()
		watcher.expect("Worker", 1, 2)
		w.setImage("g", "Worker", "example.com/vllm:2")
		w.hasCondition("g", nvidiav1alpha1.ConditionRolledOut, metav1.ConditionFalse, nvidiav1alpha1.ReasonRolloutWaitsForCapacity, "Worker: 0 of 1", "replica 1", "in one rack")
		Expect(meta.IsStatusConditionTrue(w.dgd("g").Status.Conditions, nvidiav1alpha1.ConditionPlaced)).To(BeTrue(), "what is wanted permanently is placed")
		w.hasEvent("DynamoGraphDeployment", "g", nvidiav1alpha1.ReasonRolloutWaitsForCapacity, "Worker")
		watcher.allow(blocker)
		w.remove(blocker)
		w.until("the replica is updated", func() error { return w.runs("example.com/vllm:2", 2) })
		w.ready("g")
		watcher.stop()
		Expect(w.all()).To(w.bePlacedIn("rack", "a/r1"))
		Expect(meta.FindStatusCondition(w.dgd("g").Status.Conditions, nvidiav1alpha1.ConditionRolledOut)).To(BeNil(), "the update is over")
	}, SpecTimeout(suite.Timeout()))

	// The new revision is too large for any host. What is left of the old one continues to serve, and a revert brings the rest back without
	// touching it.
	It("is reverted in the middle, and what serves is not touched", func(ctx SpecContext) {
		w := newWorld(ctx, "revert", racks(2, 8, "a/r0", "a/r1")...)
		w.create(w.graphOf("g", "zone", services{"Worker": worker(2, 2, 8, "rack")}))
		w.ready("g")
		watcher := w.follow()
		watcher.expect("Worker", 1, 2)
		w.patch("g", `{"spec":{"services":{"Worker":{"resources":{"limits":{"gpu":"9"}}}}}}`)
		w.hasCondition("g", nvidiav1alpha1.ConditionRolledOut, metav1.ConditionFalse, nvidiav1alpha1.ReasonRolloutWaitsForCapacity, "Worker: 0 of 2 replicas serve the current revision, 1 serve in all")
		kept := w.uids()
		maps.DeleteFunc(kept, func(uid types.UID, _ bool) bool { return !watcher.ready(uid) })
		Expect(kept).To(HaveLen(2), "the pods of the old revision that serve")
		w.patch("g", `{"spec":{"services":{"Worker":{"resources":{"limits":{"gpu":"8"}}}}}}`)
		w.ready("g")
		watcher.stop()
		Expect(w.uids()).To(haveAllOf(kept), "a pod that served the reverted revision is gone")
	}, SpecTimeout(suite.Timeout()))

	// nodeCount changes: replicas of the older size are whole, serve on, and are replaced one after the other.
	It("changes the size of replicas, one after the other", func(ctx SpecContext) {
		w := newWorld(ctx, "resize", racks(3, 8, "a/r0", "a/r1")...)
		w.create(w.graphOf("g", "zone", services{"Worker": worker(2, 2, 8, "rack")}))
		w.ready("g")
		watcher := w.follow()
		watcher.expect("Worker", 1, 2)
		w.patch("g", `{"spec":{"services":{"Worker":{"multinode":{"nodeCount":3}}}}}`)
		w.until("all replicas have three pods", func() error { return w.sizes("Worker", 3, 3) })
		w.ready("g")
		w.patch("g", `{"spec":{"services":{"Worker":{"multinode":{"nodeCount":2}}}}}`)
		w.until("all replicas have two pods", func() error { return w.sizes("Worker", 2, 2) })
		w.ready("g")
		watcher.stop()
	}, SpecTimeout(suite.Timeout()))
})

var _ = Describe("Scale-in", func() {
	// The replica in the middle does not serve: scale-in takes it, whole, and leaves the others, their names included. Scaled out again, the
	// gap is filled.
	It("takes the replica that does not serve, whole, and leaves the names of the others", func(ctx SpecContext) {
		w := newWorld(ctx, "middle", racks(2, 8, "a/r0", "a/r1", "a/r2")...)
		w.create(w.graphOf("g", "zone", services{"Worker": worker(3, 2, 8, "rack")}))
		w.ready("g")
		w.unready("g-worker-1-1")
		w.hasCondition("g", nvidiav1alpha1.ConditionReady, metav1.ConditionFalse, nvidiav1alpha1.ReasonPodsNotReady, "ready=2")
		before := w.uids()
		w.scale("g", "Worker", 2)
		w.until("replica 1 is gone", func() error { return w.sizes("Worker", 2, -1, 2) })
		w.ready("g")
		Expect(before).To(haveAllOf(w.uids()), "no pod was recreated")
		var names []string
		for _, pod := range w.all() {
			names = append(names, pod.Name)
		}
		Expect(names).To(ConsistOf("g-worker-0-0", "g-worker-0-1", "g-worker-2-0", "g-worker-2-1"), "the pods of replicas 0 and 2")
		w.scale("g", "Worker", 3)
		w.until("the gap is filled", func() error { return w.sizes("Worker", 2, 2, 2) })
		w.ready("g")
		for ordinal, pods := range w.replicasOf("Worker") {
			Expect(pods).To(w.bePlacedInOne("rack"), "replica %d", ordinal)
		}
	}, SpecTimeout(suite.Timeout()))

	// A replica that waits for capacity is what scale-in takes first, though it has the lowest ordinal.
	It("takes a replica that waits for capacity first", func(ctx SpecContext) {
		w := newWorld(ctx, "waiting-first", racks(2, 8, "a/r0", "a/r1")...)
		w.create(w.graphOf("g", "zone", services{"Worker": worker(2, 2, 8, "rack")}))
		w.ready("g")
		node := get(w, &corev1.Node{}, "", w.replicasOf("Worker")[0][0].Spec.NodeName)
		Expect(w.c.Patch(ctx, node, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"unschedulable":true}}`)))).To(Succeed())
		w.deletePod("g-worker-0-0")
		w.hasCondition("g", nvidiav1alpha1.ConditionPlaced, metav1.ConditionFalse, "InsufficientCapacity", "Worker-0")
		w.scale("g", "Worker", 1)
		w.until("replica 0 is gone", func() error { return w.sizes("Worker", -1, 2) })
		w.ready("g")
	}, SpecTimeout(suite.Timeout()))
})

// unready makes a pod's readiness fail, as its kubelet would.
func (w *world) unready(name string) {
	w.t.Helper()
	pod := get(w, &corev1.Pod{}, w.name, name)
	changed := pod.DeepCopy()
	for i := range changed.Status.Conditions {
		if changed.Status.Conditions[i].Type == corev1.PodReady {
			changed.Status.Conditions[i].Status = corev1.ConditionFalse
		}
	}
	if err := w.c.Status().Patch(w.t.Context(), changed, client.StrategicMergeFrom(pod)); err != nil {
		w.t.Fatal(err)
	}
}

func bounds(unavailable, surge string) map[string]string {
	return map[string]string{rollout.AnnotationMaxUnavailable: unavailable, rollout.AnnotationMaxSurge: surge}
}

// patch changes a deployment, by a merge patch that may be applied twice: a write that ran out of time on a busy machine is tried again.
func (w *world) patch(name, change string) {
	w.t.Helper()
	if err := w.c.Patch(w.t.Context(), w.dgd(name), client.RawPatch(types.MergePatchType, []byte(change))); err != nil {
		w.t.Fatalf("changing %s: %v", name, err)
	}
}

func (w *world) setImage(name, service, image string) {
	w.t.Helper()
	w.patch(name, fmt.Sprintf(`{"spec":{"services":{%q:{"extraPodSpec":{"mainContainer":{"image":%q}}}}}}`, service, image))
}

func (w *world) remove(o client.Object) {
	w.t.Helper()
	if err := w.c.Delete(w.t.Context(), o); err != nil {
		w.t.Fatal(err)
	}
}

// runs: there are n pods, all with this image.
func (w *world) runs(image string, n int) error {
	pods := w.all()
	for i := range pods {
		if pods[i].Spec.Containers[0].Image != image {
			return fmt.Errorf("pod %s runs %s", pods[i].Name, pods[i].Spec.Containers[0].Image)
		}
	}
	if len(pods) != n {
		return fmt.Errorf("%d pods, want %d", len(pods), n)
	}
	return nil
}

// sizes: the replicas of the component have so many pods, by ordinal; -1 for one that is not there.
func (w *world) sizes(service string, want ...int) error {
	replicas := w.replicasOf(service)
	var wrong []string
	for ordinal, n := range want {
		if have := len(replicas[int32(ordinal)]); have != max(n, 0) {
			wrong = append(wrong, fmt.Sprintf("replica %d has %d pods, want %d", ordinal, have, n))
		}
		delete(replicas, int32(ordinal))
	}
	for ordinal := range replicas {
		wrong = append(wrong, fmt.Sprintf("replica %d is there", ordinal))
	}
	if len(wrong) > 0 {
		return fmt.Errorf("%s", strings.Join(wrong, ", "))
	}
	return nil
}
