// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"fmt"
	"maps"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/provider/grove"
	"github.com/trellis-k8s/trellis/test/testutil/graphs"
)

// taking are the rows about capacity that one deployment takes from another.
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
			w.createUrgent()
			Expect(w.evicted(before)).To(HaveLen(1), "graphs that lost pods to a gang that fills one rack")
			w.pass(func(*corev1.Pod) error { return nil })
			Expect(w.evicted(before)).To(HaveLen(1), "graphs that lost pods in a later pass")
		},
	},
}

// createUrgent creates a deployment of one rack with a higher priority than the others, and waits until it is Ready.
func (w *world) createUrgent() *nvidiav1alpha1.DynamoGraphDeployment {
	GinkgoHelper()
	high := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: w.name}, Value: 90}
	w.createOutside(high)
	urgent := w.graph("urgent", "zone", services{"Worker": worker(1, 2, 8, "rack")})
	urgent.Spec.PriorityClassName = high.Name
	w.create(urgent)
	w.ready("urgent")
	return urgent
}

// evicted returns the deployments whose pods differ from before.
func (w *world) evicted(before map[string]map[types.UID]bool) []string {
	GinkgoHelper()
	var out []string
	for name, pods := range before {
		if !maps.Equal(pods, graphs.UIDs(w.pods(name, ""))) {
			out = append(out, name)
		}
	}
	return out
}

var _ = Describe("What one deployment takes from another", Serial, func() { eachUnderEach(taking) })

// The spec scales Grove's objects, as an autoscaler of Grove's would.
var _ = DescribeTable("The replicas of Grove's objects are the deployment's", Serial, func(ctx SpecContext, p provider) {
	w := newWorld(ctx, p, racks(2, "a/r0", "a/r1")...)
	w.create(w.graph("g", "zone", services{"Worker": worker(1, 2, 8, "rack"), "Frontend": frontend(1)}))
	w.ready("g")
	group, clique := w.made(grove.PodCliqueScalingGroupKind, "g-0-worker"), w.made(grove.PodCliqueKind, "g-0-frontend")
	asDeployed := func() {
		w.has(group, 2)
		w.has(clique, 2)
		w.ready("g")
		w.eachInOne("Worker", 2, 2)
	}
	w.scale("Worker", 2)
	w.scale("Frontend", 2)
	asDeployed()
	before := w.pods("g", "Frontend")
	for object, replicas := range map[*unstructured.Unstructured]int64{group: 1, clique: 3} {
		patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas))
		Expect(api.SubResource("scale").Patch(w.ctx, object.DeepCopy(), patch)).To(Succeed())
	}
	asDeployed()
	w.stay(before[:1])
}, ifRunning(underGrove))

// made waits for an object of Grove's in the world, and returns it.
func (w *world) made(kind schema.GroupVersionKind, name string) *unstructured.Unstructured {
	GinkgoHelper()
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(kind)
	w.until(kind.Kind+" "+name+" is there", func() error { return api.Get(w.ctx, client.ObjectKey{Namespace: w.name, Name: name}, object) })
	return object
}

// has waits until an object of Grove's has the given spec.replicas.
func (w *world) has(object *unstructured.Unstructured, want int64) {
	GinkgoHelper()
	w.until(fmt.Sprintf("%s has %d replicas", object.GetName(), want), func() error {
		now, _, _ := unstructured.NestedInt64(w.made(object.GroupVersionKind(), object.GetName()).Object, "spec", "replicas")
		if now != want {
			return fmt.Errorf("it has %d", now)
		}
		return nil
	})
}
