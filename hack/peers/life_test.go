// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/provider/grove"
	"github.com/trellis-k8s/trellis/internal/provider/kai"
	"github.com/trellis-k8s/trellis/internal/provider/lws"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
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
			before, topology := w.pods("g", ""), &grovev1alpha1.ClusterTopology{}
			if err := api.Get(w.Context(), client.ObjectKeyFromObject(w.topology()), topology); err != nil {
				w.Fatal(err)
			}
			topology.Spec.Levels = slices.Delete(topology.Spec.Levels, 1, 2)
			if err := api.Update(w.Context(), topology); err != nil {
				w.Fatal(err)
			}
			w.says("g", levels, metav1.ConditionFalse, "TopologyLevelsUnavailable", "rack")
			w.stay(before)
			w.until("the level is back", func() error {
				if err := api.Get(w.Context(), client.ObjectKeyFromObject(w.topology()), topology); err != nil {
					return err
				}
				topology.Spec.Levels = w.topology().Spec.Levels
				return api.Update(w.Context(), topology)
			})
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
				if pod.Spec.Containers[0].Image != "example.com/vllm:2" {
					w.Errorf("%s runs %s", pod.Name, pod.Spec.Containers[0].Image)
				}
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
			high := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: w.name}, Value: 90}
			w.create(high)
			defer w.remove(high)
			urgent := w.graph("urgent", "zone", services{"Worker": worker(1, 2, 8, "rack")})
			urgent.Spec.PriorityClassName = high.Name
			w.create(urgent)
			w.ready("urgent")
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
			for _, kind := range []schema.GroupVersionKind{
				corev1.SchemeGroupVersion.WithKind("Pod"), kai.PodGroupKind, grove.PodCliqueSetKind, grove.PodCliqueKind, grove.PodCliqueScalingGroupKind, lws.Kind,
			} {
				w.until(kind.Kind+" is gone", func() error {
					list := &unstructured.UnstructuredList{}
					list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
					if err := api.List(w.Context(), list, client.InNamespace(w.name)); err != nil || len(list.Items) == 0 {
						return err
					}
					return fmt.Errorf("%s is left", list.Items[0].GetName())
				})
			}
		},
	},
}

func TestLives(t *testing.T) {
	all := maps.Clone(lives)
	maps.Copy(all, taking)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		for _, provider := range slices.Sorted(maps.Keys(providers)) {
			check(t, name, provider, all[name])
		}
	}
}

// A gang over its queue's limit waits whole, with KAI's reason in Placed, and starts when the limit is raised.
func TestQueueOverLimit(t *testing.T) {
	for _, provider := range slices.Sorted(maps.Keys(providers)) {
		if strings.Contains(provider, specs.LeaderWorkerSet) {
			continue // Gates knows no queues; with KAI it is as under KAI
		}
		t.Run(provider, func(t *testing.T) {
			w := newWorld(t, provider, racks(2, "a/r0")...)
			queue := &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": map[string]any{"name": w.name}, "spec": map[string]any{"parentQueue": "default-parent-queue"},
			}}
			w.create(queue)
			defer w.remove(queue)
			w.limit(queue, 8)
			g := w.graph("g", "", services{"Worker": worker(1, 2, 8, "rack")})
			g.Annotations["nvidia.com/kai-scheduler-queue"] = w.name
			w.create(g)
			w.says("g", placed, metav1.ConditionFalse, "SchedulerRefuses|WaitsForGrove", w.name)
			w.noneBound("Worker")
			if err := said(w.condition("g", placed), "limit"); err != nil {
				t.Error(err)
			}
			w.limit(queue, 16)
			w.ready("g")
		})
	}
}

func (w *world) limit(queue *unstructured.Unstructured, gpus int) {
	w.Helper()
	w.patch(queue, fmt.Sprintf(`{"spec":{"resources":{"gpu":{"limit":%d,"quota":0,"overQuotaWeight":1},"cpu":{"limit":-1,"quota":-1,"overQuotaWeight":1},"memory":{"limit":-1,"quota":-1,"overQuotaWeight":1}}}}`, gpus))
}

func said(c metav1.Condition, words string) error {
	if !strings.Contains(c.Message, words) {
		return fmt.Errorf("it says %s/%s: %s", c.Status, c.Reason, c.Message)
	}
	return nil
}

func count(pods []corev1.Pod, want int) error {
	if len(pods) != want {
		return fmt.Errorf("%d pods, want %d", len(pods), want)
	}
	return nil
}

// bound are the pods of a service that have a node.
func (w *world) bound(service string) []corev1.Pod {
	w.Helper()
	return slices.DeleteFunc(w.pods("g", service), func(p corev1.Pod) bool { return p.Spec.NodeName == "" })
}

// stay: these pods are all there still.
func (w *world) stay(pods []corev1.Pod) {
	w.Helper()
	for _, pod := range pods {
		if w.lacks(pod.UID) == nil {
			w.Errorf("%s is gone", pod.Name)
		}
	}
}

// lacks is nil when the deployment has no pod of this UID.
func (w *world) lacks(uid types.UID) error {
	for _, pod := range w.pods("g", "") {
		if pod.UID == uid {
			return fmt.Errorf("%s is there", pod.Name)
		}
	}
	return nil
}

// lost does something to the first pod of the replica of Worker, and waits until its n pods are there again: all new where Trellis makes them,
// since it makes a replica whole; under Grove that one.
func (w *world) lost(n int, do func(*corev1.Pod)) {
	w.Helper()
	first := w.pods("g", "Worker")[0]
	if w.provider != "Grove" {
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
	w.Helper()
	w.remove(pod)
}

// loseNode takes a node out of the cluster, as when its machine is gone for good.
func (w *world) loseNode(name string) {
	w.Helper()
	w.remove(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
}
