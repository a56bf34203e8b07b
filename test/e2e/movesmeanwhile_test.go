// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"maps"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/leaving"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

// leave does what kubectl trellis drain does to a host.
func (w *world) leave(host string) {
	w.t.Helper()
	w.mustKubectl("annotate", "node", host, leaving.AnnotationDrain+"=now")
	w.mustKubectl("cordon", host)
}

// stay ends that.
func (w *world) stay(host string) {
	w.t.Helper()
	w.mustKubectl("uncordon", host)
	w.mustKubectl("annotate", "node", host, leaving.AnnotationDrain+"-")
}

// hostAlone is a host of a replica of a component that has no pod of another component.
func (w *world) hostAlone(component string, ordinal int32) string {
	w.t.Helper()
	for _, pod := range w.replicasOf(component)[ordinal] {
		other := func(p corev1.Pod) bool {
			return p.Spec.NodeName == pod.Spec.NodeName && p.Labels[render.LabelComponent] != component
		}
		if !slices.ContainsFunc(w.all(), other) {
			return pod.Spec.NodeName
		}
	}
	w.t.Fatalf("every host of %s-%d has other pods", component, ordinal)
	return ""
}

// empty waits until no pod of a deployment is on a host, and no replica moves any more.
func (w *world) empty(host string) {
	w.t.Helper()
	w.until("no pod of a deployment is on host "+host, func() error {
		for _, sg := range list(w, &trellisv1alpha1.ScalingGroupList{}).Items {
			if len(sg.Status.Moves) > 0 {
				return fmt.Errorf("%s has the moves %+v", sg.Name, sg.Status.Moves)
			}
		}
		for _, pod := range w.all() {
			if pod.Spec.NodeName == host {
				return fmt.Errorf("pod %s is there", pod.Name)
			}
		}
		return nil
	})
}

var _ = Describe("A replica that is to leave its host", func() {
	It("moves while an autoscaler scales its component, and no other replica restarts", func(ctx SpecContext) {
		w := newWorld(ctx, "move-and-scale", racks(2, 8, "a/r0", "a/r1", "a/r2", "a/r3", "a/r4")...)
		w.create(w.graphOf("g", "zone", services{"Worker": withAdapter(worker(2, 2, 8, "rack"))}))
		w.ready("g")
		o, seen := w.followMoves(2, 4, "Worker")

		var fixed []*corev1.Pod
		fill := func() { // no rack that is free has a place any more
			for rack := range 5 {
				free := fmt.Sprintf("a-r%d-0", rack)
				if !slices.ContainsFunc(w.all(), func(pod corev1.Pod) bool { return pod.Spec.NodeName == w.node(free) }) {
					fixed = append(fixed, w.occupy(fmt.Sprintf("fixed-%d", len(fixed)), free, 8))
				}
			}
		}

		By("scaling out, while the successor waits for a place")
		fill()
		host, kept := w.hostAlone("Worker", 0), uidsOf(w.replicasOf("Worker")[1])
		w.leave(host)
		w.until("there is a successor", func() error { return w.haveReplicas("Worker", 3) })
		w.mustKubectl("scale", "dgdsa/g-worker", "--replicas=3")
		w.until("there is another replica", func() error { return w.haveReplicas("Worker", 4) })
		for _, pod := range fixed {
			o.allow(pod)
			w.must(w.c.Delete(ctx, pod, client.GracePeriodSeconds(0)))
		}
		w.empty(host)
		w.ready("g")
		Expect(w.haveReplicas("Worker", 3)).To(Succeed())
		Expect(uidsOf(w.replicasOf("Worker")[1])).To(ConsistOf(kept), "a replica that was not to leave")
		w.stay(host)

		By("scaling in, while the successor waits for a place")
		fill()
		ordinals := slices.Sorted(maps.Keys(w.replicasOf("Worker")))
		kept = append(uidsOf(w.replicasOf("Worker")[ordinals[1]]), uidsOf(w.replicasOf("Worker")[ordinals[2]])...)
		host = w.hostAlone("Worker", ordinals[0])
		w.leave(host)
		w.until("there is a successor", func() error { return w.haveReplicas("Worker", 4) })
		w.mustKubectl("scale", "dgdsa/g-worker", "--replicas=2")
		w.until("there are 2 replicas", func() error { return w.haveReplicas("Worker", 2) })
		w.empty(host)
		w.ready("g")
		o.stop()
		Expect(uidsOf(w.all())).To(ConsistOf(kept), "the replicas that were not to leave")
		Expect(seen).To(HaveLen(10+len(fixed)), "pods: of two replicas, of a third one, and of a successor in both cases")
	}, SpecTimeout(suite.Timeout()))

	It("is replaced by an update, or a restart, in step with the other workers", func(ctx SpecContext) {
		w := newWorld(ctx, "move-and-update", racks(2, 8, "a/r0", "a/r1", "a/r2", "a/r3", "a/r4")...)
		w.create(w.pairIn("zone", "1", "0"))
		w.ready("g")
		watcher := w.followGenerations(0.5)

		By("an update, which has begun")
		w.setImage("g", "Decode", "example.com/vllm:2")
		w.until("the update has begun", func() error { return w.someRun("example.com/vllm:2") })
		host := ""
		for _, pod := range w.of("Prefill") { // which is replaced as well
			if pod.DeletionTimestamp == nil {
				host = pod.Spec.NodeName
			}
		}
		w.leave(host)
		w.until("the workers are of one generation", w.isUpdated)
		w.empty(host)
		w.ready("g")
		w.stay(host)

		By("a restart")
		before := w.uids()
		host = w.of("Prefill")[0].Spec.NodeName
		w.patch("g", `{"spec":{"restart":{"id":"one"}}}`)
		w.leave(host)
		w.until("all pods are new", func() error {
			if r := w.dgd("g").Status.Restart; r == nil || r.Phase != nvidiav1alpha1.RestartCompleted {
				return fmt.Errorf("the restart is %+v", r)
			}
			return w.allNew(before, 9)
		})
		w.empty(host)
		w.ready("g")
		watcher.stop()
	}, SpecTimeout(suite.Timeout()))
})

// haveReplicas: a component has so many replicas that do not end.
func (w *world) haveReplicas(component string, n int) error {
	w.t.Helper()
	if got := len(w.replicasOf(component)); got != n {
		return fmt.Errorf("%s has %d replicas", component, got)
	}
	return nil
}
