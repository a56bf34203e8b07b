// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"fmt"
	"maps"

	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-k8s/trellis/internal/provider/grove"
	"github.com/trellis-k8s/trellis/test/testutil/graphs"
)

// taking are the rows about what one takes from another: pods that are evicted, and numbers that somebody else writes.
var taking = map[string]rule{
	"preemption takes no more than it needs": {
		nodes: racks(2, "a/r0", "a/r1", "a/r2"), level: "zone", services: services{"Worker": worker(1, 2, 8, "rack")},
		after: func(w *world) {
			for _, name := range []string{"h", "i"} {
				w.create(w.graph(name, "zone", services{"Worker": worker(1, 2, 8, "rack")}))
				w.ready(name)
			}
			before := map[string]map[types.UID]bool{}
			for _, name := range []string{"g", "h", "i"} {
				before[name] = graphs.UIDs(w.pods(name, ""))
			}
			high := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: w.name}, Value: 90}
			w.create(high)
			defer w.remove(high)
			urgent := w.graph("urgent", "zone", services{"Worker": worker(1, 2, 8, "rack")})
			urgent.Spec.PriorityClassName = high.Name
			w.create(urgent)
			w.ready("urgent")
			w.always("one graph lost its pods, and the others none", func() error {
				var evicted []string
				for name, pods := range before {
					if !maps.Equal(pods, graphs.UIDs(w.pods(name, ""))) {
						evicted = append(evicted, name)
					}
				}
				if len(evicted) != 1 {
					return fmt.Errorf("pods of %v were evicted for a gang that fills one rack", evicted)
				}
				return nil
			})
		},
	},
	"Grove's own scaling": {
		nodes: racks(2, "a/r0", "a/r1"), level: "zone", services: services{"Worker": worker(1, 2, 8, "rack"), "Frontend": frontend(1)},
		only: []string{"Grove"},
		after: func(w *world) {
			group, clique := w.made(grove.PodCliqueScalingGroupKind, "g-0-worker"), w.made(grove.PodCliqueKind, "g-0-frontend")
			w.scale("Worker", 2)
			w.scale("Frontend", 2)
			w.ready("g")
			w.has(group, 2)
			w.has(clique, 2)
			w.eachInOne("Worker", 2, 2)
			before := w.pods("g", "Frontend")

			// Somebody scales what Grove made, as an autoscaler of Grove's own would: the number is the deployment's.
			for object, replicas := range map[*unstructured.Unstructured]int64{group: 1, clique: 3} {
				patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas))
				if err := api.SubResource("scale").Patch(w.Context(), object.DeepCopy(), patch); err != nil {
					w.Fatal(err)
				}
			}
			w.has(group, 2)
			w.has(clique, 2)
			w.ready("g")
			w.eachInOne("Worker", 2, 2)
			w.stay(before[:1])
		},
	},
}

// made waits for an object of Grove's in the world, and returns it.
func (w *world) made(kind schema.GroupVersionKind, name string) *unstructured.Unstructured {
	w.Helper()
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(kind)
	w.until(kind.Kind+" "+name+" is there", func() error { return api.Get(w.Context(), client.ObjectKey{Namespace: w.name, Name: name}, object) })
	return object
}

// has waits until an object of Grove's is to have so many replicas.
func (w *world) has(object *unstructured.Unstructured, want int64) {
	w.Helper()
	w.until(fmt.Sprintf("%s has %d replicas", object.GetName(), want), func() error {
		now, _, _ := unstructured.NestedInt64(w.made(object.GroupVersionKind(), object.GetName()).Object, "spec", "replicas")
		if now != want {
			return fmt.Errorf("it has %d", now)
		}
		return nil
	})
}
