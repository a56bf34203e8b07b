// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

var _ = Describe("A restart", func() {
	// Services restart one after the other in the order asked for, each within the bounds of its update; one at zero has nothing to do. The
	// request withdrawn afterwards changes nothing.
	It("takes one service after the other in the order asked for, within the bounds of their updates", suite.Core, func(ctx SpecContext) {
		w := newWorld(ctx, "restart", racks(2, 8, "a/r0", "a/r1", "a/r2")...)
		w.create(w.graphOf("g", "zone", services{"Worker": worker(2, 2, 8, "rack"), "Frontend": frontend(2), "Idle": frontend(0)}))
		w.ready("g")
		before, where := w.uids(), w.placements()
		watcher := w.follow()
		watcher.expect("Worker", 1, 2)
		watcher.expect("Frontend", 1, 2)
		w.patch("g", `{"spec":{"restart":{"id":"one","strategy":{"type":"Sequential","order":["Worker","Idle","Frontend"]}}}}`)
		w.restarted("g", "one")
		Expect(w.allNew(before, 6)).To(Succeed())
		w.ready("g")
		var workers, frontends []int64
		for _, pod := range w.all() {
			Expect(pod.Annotations).To(HaveKeyWithValue(render.AnnotationRestart, "one"), "pod %s", pod.Name)
			if pod.Labels[render.LabelComponent] == "Worker" {
				workers = append(workers, pod.CreationTimestamp.Unix())
			} else {
				frontends = append(frontends, pod.CreationTimestamp.Unix())
			}
		}
		Expect(slices.Max(workers)).To(BeNumerically("<=", slices.Min(frontends)), "when workers and frontends were made: all workers come first")
		Expect(w.placements()).To(Equal(where), "the replicas come back where they were")
		before = w.uids()
		w.patch("g", `{"spec":{"restart":null}}`)
		w.scale("g", "Idle", 1)
		w.ready("g")
		Expect(w.uids()).To(haveAllOf(before), "a pod is gone though nothing was asked for")
		watcher.stop()
	}, SpecTimeout(suite.Timeout()))

	// The graph's zone has become too small for its replica. A parallel restart stops everything, so the graph is free to choose, and moves.
	It("of all services at once lets the graph move to another zone", func(ctx SpecContext) {
		w := newWorld(ctx, "restart-all", racks(2, 8, "a/r0", "b/r0")...)
		w.create(w.graphOf("g", "zone", services{"Worker": worker(1, 2, 8, "rack"), "Frontend": frontend(2)}))
		w.ready("g")
		first := w.domains("zone", w.all()...)
		node := get(w, &corev1.Node{}, "", w.replicasOf("Worker")[0][0].Spec.NodeName)
		Expect(w.c.Patch(ctx, node, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"unschedulable":true}}`)))).To(Succeed())
		watcher := w.follow()
		w.patch("g", `{"spec":{"restart":{"id":"move","strategy":{"type":"Parallel"}}}}`)
		w.restarted("g", "move")
		w.ready("g")
		watcher.stop()
		Expect(w.domains("zone", w.all()...)).To(And(HaveLen(1), Not(Equal(first))), "all of the graph is in the other zone")
		for _, sg := range list(w, &trellisv1alpha1.ScalingGroupList{}).Items {
			Expect(sg.Spec.Restart).To(And(HaveField("ID", "move"), HaveField("Stop", false)), sg.Name)
		}
	}, SpecTimeout(suite.Timeout()))

	// A restart and an edit at once, a second restart before the first is over, a scale-out: the last word counts, and no more is missing
	// than may be.
	It("during an update ends with the last request, and no more is missing than may be", func(ctx SpecContext) {
		w := newWorld(ctx, "restart-mid", racks(2, 8, "a/r0", "a/r1", "a/r2", "a/r3")...)
		w.create(w.graphOf("g", "zone", services{"Worker": worker(3, 2, 8, "rack"), "Frontend": frontend(1)}))
		w.ready("g")
		watcher := w.follow()
		watcher.expect("Worker", 2, 3)
		w.setImage("g", "Worker", "example.com/vllm:2")
		w.until("the update has begun", func() error {
			if u := w.dgd("g").Status.RollingUpdate; u == nil || u.Phase == nvidiav1alpha1.RollingUpdateCompleted {
				return fmt.Errorf("rollingUpdate is %+v", u)
			}
			return nil
		})
		w.patch("g", `{"spec":{"restart":{"id":"one"}}}`)
		w.until("the restart has begun", func() error {
			if r := w.dgd("g").Status.Restart; r == nil || r.ObservedID != "one" {
				return fmt.Errorf("restart is %+v", r)
			}
			return nil
		})
		w.patch("g", `{"spec":{"restart":{"id":"two"}}}`)
		w.restarted("g", "two")
		w.ready("g")
		watcher.stop()
		for _, pod := range w.all() {
			Expect(pod.Annotations).To(HaveKeyWithValue(render.AnnotationRestart, "two"), "pod %s", pod.Name)
			if pod.Labels[render.LabelComponent] == "Worker" {
				Expect(pod.Spec.Containers[0].Image).To(Equal("example.com/vllm:2"), "pod %s", pod.Name)
			}
		}
		Expect(w.dgd("g").Status.RollingUpdate).To(HaveField("Phase", nvidiav1alpha1.RollingUpdateCompleted))
	}, SpecTimeout(suite.Timeout()))

	// Deleted in the foreground in the middle of everything, nothing stays.
	It("leaves nothing when the deployment is deleted in the middle of it", func(ctx SpecContext) {
		w := newWorld(ctx, "deleted-mid", racks(2, 8, "a/r0", "a/r1")...)
		w.create(w.graphOf("g", "zone", services{"Worker": worker(2, 2, 8, "rack"), "Frontend": frontend(1)}))
		w.ready("g")
		w.patch("g", `{"spec":{"restart":{"id":"one","strategy":{"type":"Parallel"}}}}`)
		w.setImage("g", "Worker", "example.com/vllm:2")
		Expect(w.c.Delete(ctx, w.dgd("g"), client.PropagationPolicy("Foreground"))).To(Succeed())
		w.until("nothing is left", func() error {
			for _, l := range []client.ObjectList{&nvidiav1alpha1.DynamoGraphDeploymentList{}, &trellisv1alpha1.ScalingGroupList{}, &corev1.PodList{}, &corev1.ServiceList{}} {
				if err := w.c.List(ctx, l, client.InNamespace(w.name)); err != nil {
					return err
				}
				if n := lengthOf(l); n > 0 {
					return fmt.Errorf("%d left in %T", n, l)
				}
			}
			return nil
		})
	}, SpecTimeout(suite.Timeout()))
})

func lengthOf(l client.ObjectList) int {
	switch l := l.(type) {
	case *nvidiav1alpha1.DynamoGraphDeploymentList:
		return len(l.Items)
	case *trellisv1alpha1.ScalingGroupList:
		return len(l.Items)
	case *corev1.PodList:
		return len(l.Items)
	case *corev1.ServiceList:
		return len(l.Items)
	}
	return -1
}

// restarted waits until the request is done with.
func (w *world) restarted(name, id string) {
	w.t.Helper()
	w.until("restart "+id+" is completed", func() error {
		r := w.dgd(name).Status.Restart
		if r == nil || r.ObservedID != id || r.Phase != nvidiav1alpha1.RestartCompleted {
			return fmt.Errorf("it is %+v", r)
		}
		return nil
	})
}

// placements says in one line where the packed replicas sit.
func (w *world) placements() string {
	w.t.Helper()
	s := ""
	for _, p := range w.dgd("g").Status.Services["Worker"].Placements {
		s += fmt.Sprintf("%d:%s ", p.Replica, p.Domain)
	}
	return s
}

// A replica waits for its graph's zone, a Sequential restart waits with it, and the documented Parallel one takes its place and moves the graph to the
// zone that holds all of it.
var _ = Describe("The Parallel restart of docs/updates.md", func() {
	It("moves a graph whose restart waits for capacity", func(ctx SpecContext) {
		page, err := os.ReadFile(filepath.Join("..", "..", "docs", "updates.md"))
		Expect(err).NotTo(HaveOccurred())
		_, section, _ := strings.Cut(string(page), "\n### A Parallel restart\n")
		_, patch, found := strings.Cut(section, "kubectl patch dgd NAME --type=merge -p '")
		Expect(found).To(BeTrue(), "the page shows a Parallel restart")
		patch, _, _ = strings.Cut(patch, "'\n")
		w := newWorld(ctx, "restart-docs", racks(2, 8, "a/r0", "b/r0", "b/r1")...)
		w.create(w.graphOf("g", "zone", services{"Worker": worker(1, 2, 8, "rack")}))
		w.ready("g")
		Expect(w.domains("zone", w.all()...)).To(Equal([]string{"a"}))
		w.scale("g", "Worker", 2)
		w.hasCondition("g", nvidiav1alpha1.ConditionPlaced, metav1.ConditionFalse, "InsufficientCapacity", "running pods anchor the graph in")
		why, _ := w.kubectlTrellis(0, "explain", "dgd/g")
		w.says(why, "A Parallel restart places it: b holds all 2 packed replicas.", "kubectl trellis rollout restart --parallel dgd/g -n "+w.name)
		w.patch("g", `{"spec":{"restart":{"id":"one","strategy":{"type":"Sequential","order":["Worker"]}}}}`)
		w.hasCondition("g", nvidiav1alpha1.ConditionRolledOut, metav1.ConditionFalse, nvidiav1alpha1.ReasonRolloutWaitsForCapacity, "running pods anchor the graph in")
		w.patch("g", strings.ReplaceAll(patch, "'$ID'", "moved"))
		w.restarted("g", "moved")
		w.ready("g")
		Expect(w.domains("zone", w.all()...)).To(Equal([]string{"b"}))
	}, SpecTimeout(suite.Timeout()))
})
