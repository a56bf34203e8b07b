// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"fmt"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-k8s/trellis/hack/sandbox"
	"github.com/trellis-k8s/trellis/hack/sandbox/peers"
	"github.com/trellis-k8s/trellis/internal/provider/grove"
	"github.com/trellis-k8s/trellis/internal/provider/kai"
	"github.com/trellis-k8s/trellis/internal/provider/lws"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

const levels = "TopologyLevelsAvailable"

// lives are the rows of the table about changes of a deployment, its topology and its queue.
var lives = map[string]rule{
	"the topology is deleted": {
		nodes: racks(2, "a/r0", "a/r1"), level: "zone", services: services{"Worker": worker(1, 2, 8, "rack")},
		after: func(w *world) {
			before := w.pods("g", "")
			w.remove(w.topology())
			w.says("g", levels, metav1.ConditionFalse, "TopologyDefinitionNotFound", "")
			w.stay(before)
			w.create(w.topology())
			w.says("g", levels, metav1.ConditionTrue, "AllTopologyLevelsAvailable", "")
			w.scale("Worker", 2)
			w.ready("g")
			w.eachInOne("Worker", 2, 2)
			w.stay(before)
		},
	},
	"a level is removed": {
		nodes: racks(2, "a/r0", "a/r1"), level: "zone", services: services{"Worker": worker(1, 2, 8, "rack")},
		after: func(w *world) {
			before, all := w.pods("g", ""), w.topology().Spec.Levels
			w.setLevels(slices.Concat(all[:1], all[2:]))
			w.says("g", levels, metav1.ConditionFalse, "TopologyLevelsUnavailable", "rack")
			w.stay(before)
			w.setLevels(all)
			w.says("g", levels, metav1.ConditionTrue, "AllTopologyLevelsAvailable", "")
			w.scale("Worker", 2)
			w.ready("g")
			w.eachInOne("Worker", 2, 2)
			w.stay(before)
		},
	},
	"a rolling update": {
		nodes: racks(2, "a/r0", "a/r1", "a/r2"), level: "zone", services: services{"Worker": worker(2, 2, 8, "rack"), "Frontend": frontend(1)},
		after: func(w *world) {
			w.replaced("Worker", 4, func() {
				w.patch(w.dgd("g"), `{"spec":{"services":{"Worker":{"extraPodSpec":{"mainContainer":{"image":"example.com/vllm:2"}}}}}}`)
			})
			w.ready("g")
			for _, pod := range w.pods("g", "Worker") {
				Expect(pod.Spec.Containers[0].Image).To(Equal("example.com/vllm:2"), "the image of %s", pod.Name)
			}
			w.eachInOne("Worker", 2, 2)
		},
	},
	"a restart": {
		nodes: racks(2, "a/r0", "a/r1", "a/r2"), level: "zone", services: services{"Worker": worker(2, 2, 8, "rack"), "Frontend": frontend(1)},
		after: func(w *world) {
			w.replaced("", 5, func() { w.patch(w.dgd("g"), `{"spec":{"restart":{"id":"one"}}}`) })
			w.until("the restart is complete", func() error {
				if s := w.dgd("g").Status.Restart; s == nil || s.Phase != "Completed" {
					return fmt.Errorf("it is %+v", s)
				}
				return nil
			})
			w.ready("g")
			w.eachInOne("Worker", 2, 2)
		},
	},
	"priority": {
		nodes: racks(2, "a/r0"), level: "zone", services: services{"Worker": worker(1, 2, 8, "rack")},
		after: func(w *world) {
			urgent := w.createUrgent()
			w.says("g", placed, metav1.ConditionFalse, "InsufficientCapacity|WaitsForGrove", "")
			w.noneBound("Worker")
			w.remove(urgent)
			w.ready("g")
			w.eachInOne("Worker", 2, 1)
		},
	},
	"scaling out and in": {
		nodes: racks(2, "a/r0", "a/r1", "a/r2"), level: "zone", services: services{"Worker": worker(1, 2, 8, "rack"), "Frontend": frontend(1)},
		after: func(w *world) {
			w.scale("Worker", 3)
			w.ready("g")
			w.eachInOne("Worker", 2, 3)
			before := w.pods("g", "Frontend")
			w.scale("Worker", 1)
			w.until("two replicas are gone", func() error { return count(w.pods("g", "Worker"), 2) })
			w.scale("Worker", 0)
			w.until("all replicas are gone", func() error { return count(w.pods("g", "Worker"), 0) })
			w.scale("Worker", 2)
			w.ready("g")
			w.eachInOne("Worker", 2, 2)
			w.stay(before)
		},
	},
	"cleanup": {
		nodes: racks(2, "a/r0"), level: "zone", services: services{"Worker": worker(1, 2, 8, "rack"), "Frontend": frontend(1)},
		after: func(w *world) {
			w.remove(w.dgd("g"))
			for _, kind := range kinds() {
				w.until(kind.Kind+" is gone", func() error {
					list := &unstructured.UnstructuredList{}
					list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
					if err := api.List(w.ctx, list, client.InNamespace(w.name)); err != nil || len(list.Items) == 0 {
						return err
					}
					return fmt.Errorf("%s is left", list.Items[0].GetName())
				})
			}
		},
	},
}

// kinds returns the kinds of objects that Trellis and the running peers create for deployments.
func kinds() []schema.GroupVersionKind {
	out := []schema.GroupVersionKind{corev1.SchemeGroupVersion.WithKind("Pod")}
	for peer, made := range map[sandbox.Provider][]schema.GroupVersionKind{
		sandbox.KAI:             {kai.PodGroupKind},
		sandbox.Grove:           {grove.PodCliqueSetKind, grove.PodCliqueKind, grove.PodCliqueScalingGroupKind},
		sandbox.LeaderWorkerSet: {lws.Kind},
	} {
		if slices.Contains(peers.Chosen(), string(peer)) {
			out = append(out, made...)
		}
	}
	return out
}

var _ = Describe("The life of a deployment", Serial, func() { eachUnderEach(lives) })

// Gates has no queues, and KAI with LeaderWorkerSet uses KAI's.
var _ = DescribeTable("A gang over its queue's limit waits whole, with KAI's reason in Placed, and starts when the limit is raised", Serial,
	func(ctx SpecContext, p provider) {
		w := newWorld(ctx, p, racks(2, "a/r0")...)
		queue := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": map[string]any{"name": w.name},
			"spec": map[string]any{"parentQueue": "default-parent-queue"},
		}}
		w.createOutside(queue)
		w.limit(queue, 8)
		g := w.graph("g", "", services{"Worker": worker(1, 2, 8, "rack")})
		g.Annotations[render.AnnotationQueue] = w.name
		w.create(g)
		w.says("g", placed, metav1.ConditionFalse, "SchedulerRefuses|WaitsForGrove", w.name)
		w.noneBound("Worker")
		Expect(said(w.condition("g", placed), "limit")).To(Succeed())
		w.limit(queue, 16)
		w.ready("g")
	}, ifRunning(underGrove, underKAI))

// ifRunning returns the entries of the providers whose peers run.
func ifRunning(of ...provider) []TableEntry {
	var out []TableEntry
	for _, p := range of {
		if p.runs() {
			out = append(out, Entry("under "+p.name, p.labels, SpecTimeout(suite.Timeout()), p))
		}
	}
	return out
}

func (w *world) limit(queue *unstructured.Unstructured, gpus int) {
	GinkgoHelper()
	w.patch(queue, fmt.Sprintf(`{"spec":{"resources":{
		"gpu":{"limit":%d,"quota":0,"overQuotaWeight":1},
		"cpu":{"limit":-1,"quota":-1,"overQuotaWeight":1},
		"memory":{"limit":-1,"quota":-1,"overQuotaWeight":1}}}}`, gpus))
}

// lost calls do with the first pod of the Worker replica, and waits until its n pods exist again. Trellis recreates the entire replica,
// Grove only the lost pod.
func (w *world) lost(n int, do func(*corev1.Pod)) {
	GinkgoHelper()
	first := w.pods("g", "Worker")[0]
	if !w.underGrove() {
		w.replaced("Worker", n, func() { do(&first) })
		return
	}
	do(&first)
	w.until("the pod is new", func() error {
		if err := w.lacks(first.UID); err != nil {
			return err
		}
		return count(w.pods("g", "Worker"), n)
	})
}

func (w *world) removeOne(pod *corev1.Pod) {
	GinkgoHelper()
	w.remove(pod)
}

// loseNode removes a node from the cluster, as if its machine were gone permanently.
func (w *world) loseNode(name string) {
	GinkgoHelper()
	w.remove(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
}
