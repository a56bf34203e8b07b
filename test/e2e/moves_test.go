// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/trellis-k8s/trellis/internal/leaving"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

// followMoves notes every pod there ever is, and fails when a component serves less than all its replicas.
func (w *world) followMoves(replicas int, components ...string) (*observer, map[types.UID]bool) {
	w.t.Helper()
	o, seen := w.newObserver(), map[types.UID]bool{}
	o.also = func(pod *corev1.Pod) { seen[pod.UID] = true }
	o.start(w.c)
	w.until("the pods are seen", func() error {
		o.mu.Lock()
		defer o.mu.Unlock()
		if len(o.pods) < len(w.all()) {
			return fmt.Errorf("%d pods", len(o.pods))
		}
		return nil
	})
	for _, component := range components {
		o.expect(component, replicas, replicas+1)
	}
	return o, seen
}

var _ = Describe("A drain of hosts", func() {
	It("by kubectl restarts each replica on them once, on other hosts, and every component serves all its replicas", func(ctx SpecContext) {
		var paths []string
		for rack := range 12 {
			paths = append(paths, fmt.Sprintf("a/r%d", rack))
		}
		w := newWorld(ctx, "moves", racks(4, 8, paths...)...)
		components := []string{"Alpha", "Beta", "Gamma"}
		for i, name := range components {
			w.create(w.graphOf(fmt.Sprintf("g%d", i), "zone", services{name: worker(4, 2, 8, "rack")}))
		}
		for i := range components {
			w.ready(fmt.Sprintf("g%d", i))
		}
		var hosts []string // of the first four racks with pods
		for _, path := range paths {
			var rack []string
			used := false
			for host := range 4 {
				name := w.node(fmt.Sprintf("a-%s-%d", path[2:], host))
				rack = append(rack, name)
				used = used || slices.ContainsFunc(w.all(), func(pod corev1.Pod) bool { return pod.Spec.NodeName == name })
			}
			if used && len(hosts) < 16 {
				hosts = append(hosts, rack...)
			}
		}
		Expect(hosts).To(HaveLen(16))
		moved := map[string]bool{}
		before := w.all()
		for _, pod := range before {
			if slices.Contains(hosts, pod.Spec.NodeName) {
				moved[pod.Labels[render.LabelGraph]+"/"+pod.Labels[render.LabelReplica]] = true
			}
		}
		o, seen := w.followMoves(4, components...)

		w.mustKubectl(append([]string{"cordon"}, hosts...)...)
		for batch := range slices.Chunk(hosts, 4) {
			w.mustKubectl(append([]string{"drain", "--delete-emptydir-data", "--timeout=" + suite.Patience().String(),
				"--pod-selector=" + render.LabelComponent}, batch...)...)
		}
		for i := range components {
			w.ready(fmt.Sprintf("g%d", i))
		}
		o.stop()
		Expect(seen).To(HaveLen(len(before)+2*len(moved)), "%d replicas were on the hosts, and each restarts once", len(moved))
		for _, pod := range w.all() {
			Expect(hosts).NotTo(ContainElement(pod.Spec.NodeName), "pod %s is on a host that is drained", pod.Name)
		}
	}, SpecTimeout(suite.Timeout()))

	It("by kubectl trellis moves the replicas, and takes its mark away", func(ctx SpecContext) {
		w := newWorld(ctx, "trellis-drain", racks(1, 8, "a/r0", "a/r1", "a/r2")...)
		w.create(w.graphOf("g", "zone", services{"Worker": worker(2, 1, 8, "rack")}))
		w.ready("g")
		pod := w.all()[0]
		listed, _ := w.kubectlTrellis(0, "drain", "--dry-run", pod.Spec.NodeName)
		w.says(listed, "Worker-"+pod.Labels[render.LabelReplica], "moves")
		Expect(get(w, &corev1.Node{}, "", pod.Spec.NodeName).Spec.Unschedulable).To(BeFalse(), "a dry run has cordoned the node")

		o, seen := w.followMoves(2, "Worker")
		w.kubectlTrellis(0, "drain", pod.Spec.NodeName)
		w.ready("g")
		o.stop()
		node := get(w, &corev1.Node{}, "", pod.Spec.NodeName)
		Expect(node.Spec.Unschedulable).To(BeTrue())
		Expect(node.Annotations).NotTo(HaveKey(leaving.AnnotationDrain))
		Expect(seen).To(HaveLen(3), "one replica restarts once")
		for _, one := range w.all() {
			Expect(one.Spec.NodeName).NotTo(Equal(pod.Spec.NodeName))
		}
	}, SpecTimeout(suite.Timeout()))

	It("ends without a move when an autoscaler takes its taint away", func(ctx SpecContext) {
		w := newWorld(ctx, "taint-and-back", racks(1, 8, "a/r0", "a/r1")...)
		w.create(w.graphOf("g", "zone", services{"Worker": worker(2, 1, 8, "rack")}))
		w.ready("g")
		before := w.uids()
		node := w.all()[0].Spec.NodeName
		w.mustKubectl("taint", "node", node, "ToBeDeletedByClusterAutoscaler=:NoSchedule")
		w.until("a successor waits", func() error {
			if n := len(w.all()); n != 3 {
				return fmt.Errorf("%d pods", n)
			}
			return nil
		})
		w.mustKubectl("taint", "node", node, "ToBeDeletedByClusterAutoscaler-")
		w.until("the successor is gone, and nothing else", func() error {
			if diff := fmt.Sprint(w.uids()); diff != fmt.Sprint(before) {
				return fmt.Errorf("there are %s", diff)
			}
			return nil
		})
		w.ready("g")
		Expect(w.uids()).To(Equal(before))
	}, SpecTimeout(suite.Timeout()))
})
