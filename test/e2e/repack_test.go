// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-k8s/trellis/hack/sandbox"
	"github.com/trellis-k8s/trellis/internal/cli/repack"
	"github.com/trellis-k8s/trellis/internal/leaving"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/scheduler"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

// fragment fills half of every host: four replicas of deployments of their own, which may move in their zone, on four hosts, and pods of
// another owner on the two others. It returns the names of the deployments by the racks in which all pods may move.
func (w *world) fragment(hosts []host) map[string][]string {
	w.t.Helper()
	fixed := map[string]*corev1.Pod{}
	for _, h := range hosts {
		fixed[w.node(h.name)] = w.occupy("fixed-"+h.name, h.name, 4)
	}
	for i := range 4 {
		name := fmt.Sprintf("k%d", i)
		dgd := w.graphOf(name, "zone", services{strings.ToUpper(name): worker(1, 1, 4, "")})
		dgd.Annotations = map[string]string{render.AnnotationMayMove: "true"}
		w.create(dgd)
		w.ready(name)
	}
	on := map[string]string{}
	for _, pod := range w.all() {
		on[pod.Spec.NodeName] = pod.Labels[render.LabelGraph]
		w.must(w.c.Delete(w.t.Context(), fixed[pod.Spec.NodeName], client.GracePeriodSeconds(0)))
	}
	Expect(on).To(HaveLen(4), "the replicas are not on hosts of their own")
	movable, stays := map[string][]string{}, map[string]bool{}
	for _, h := range hosts {
		if name := on[w.node(h.name)]; name != "" {
			movable[h.rack] = append(movable[h.rack], name)
		} else {
			stays[h.rack] = true
		}
	}
	for rack := range stays {
		delete(movable, rack)
	}
	return movable
}

// followRestarts notes every pod there ever is by its deployment, and fails when one of the deployments does not serve.
func (w *world) followRestarts(names ...string) (*observer, map[string]map[types.UID]bool) {
	w.t.Helper()
	o, seen := w.newObserver(), map[string]map[types.UID]bool{}
	o.also = func(pod *corev1.Pod) {
		graph := pod.Labels[render.LabelGraph]
		if seen[graph] == nil {
			seen[graph] = map[types.UID]bool{}
		}
		seen[graph][pod.UID] = true
	}
	o.start(w.c)
	w.until("the pods are seen", func() error {
		o.mu.Lock()
		defer o.mu.Unlock()
		if len(seen) < len(names) {
			return fmt.Errorf("pods of %d deployments", len(seen))
		}
		return nil
	})
	for _, name := range names {
		o.expect(strings.ToUpper(name), 1, 2)
	}
	return o, seen
}

var _ = Describe("A gang that waits while GPUs are free in pieces", func() {
	It("gets a rack: its replicas move, one after the other, each restarts once, and every deployment serves", func(ctx SpecContext) {
		e := newEnvironment(of(ctx), "repack", func(o *sandbox.Options) {
			o.Manager = sandbox.ManagerOptions{Args: []string{"--repack-after=2s", "--repack-rest=20s", "--repack-max-gpus=8"}}
		})
		hosts := racks(2, 8, "a/r0", "a/r1", "a/r2")
		w := e.newWorld(ctx, "repack", hosts...)
		movable := w.fragment(hosts)
		names := []string{"k0", "k1", "k2", "k3"}
		o, seen := w.followRestarts(names...)

		w.create(w.graphOf("big", "zone", services{"Worker": worker(1, 2, 8, "rack")}))
		w.hasEventOf(corev1.EventTypeNormal, "DynamoGraphDeployment", "big", scheduler.EventRepacking, "2 replicas with 8 GPUs move so that it gets 2 hosts in a")
		w.ready("big")
		for _, name := range names {
			w.ready(name)
		}
		o.stop()

		moved := map[string]bool{}
		for _, name := range movable[get(w, &corev1.Node{}, "", w.pod("big-worker-0-0").Spec.NodeName).Labels[rackKey]] {
			moved[name] = true
		}
		Expect(moved).To(HaveLen(2))
		for _, name := range names {
			Expect(seen[name]).To(HaveLen(1+bools(moved[name])), "%s was in a rack that the gang got: %t", name, moved[name])
		}
		Expect(seen["big"]).To(HaveLen(2), "the gang was created once")
		for _, pod := range w.all() {
			Expect(pod.Annotations).NotTo(HaveKey(leaving.AnnotationEviction), "pod %s is still requested to move", pod.Name)
		}
	}, SpecTimeout(suite.Timeout()))
})

// operatorFlags creates a Deployment from which the plugin reads the operator's flags. The sandbox's operator is no pod.
func (w *world) operatorFlags(args ...string) {
	w.t.Helper()
	labels := map[string]string{"app.kubernetes.io/name": "trellis", "app.kubernetes.io/component": "manager"}
	w.create(&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "manager", Labels: labels}, Spec: appsv1.DeploymentSpec{
		Replicas: ptr.To[int32](0), Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "manager", Image: "none", Args: args}},
		}},
	}})
}

var _ = Describe("A rack that is to be free", func() {
	It("is freed by kubectl trellis repack: the replicas of the list move, and no others", func(ctx SpecContext) {
		e := newEnvironment(of(ctx), "free")
		hosts := racks(2, 8, "a/r0", "a/r1", "a/r2")
		w := e.newWorld(ctx, "free", hosts...)
		w.operatorFlags("--repack-rest=1s")
		w.fragment(hosts)
		names := []string{"k0", "k1", "k2", "k3"}
		o, seen := w.followRestarts(names...)
		nodes := map[string]string{}
		for _, h := range hosts {
			nodes[w.node(h.name)] = h.rack
		}
		before := map[string]string{}
		for _, pod := range w.all() {
			before[pod.Labels[render.LabelGraph]] = nodes[pod.Spec.NodeName]
		}

		plan := asJSON[repack.Report](w, 0, "repack", "--topology", w.name, "--free", "rack=1")
		Expect(plan.Domains).To(HaveLen(1))
		_, rack, _ := strings.Cut(plan.Domains[0], "/")
		shown, said := w.kubectlTrellis(0, "repack", "--topology", w.name, "--free", "rack=1", "--apply")
		w.says(shown, "node/", "cordoned", "moves")
		w.says(said, "No GPU is in use in a/"+rack, "kubectl uncordon")
		for _, name := range names {
			w.ready(name)
		}
		o.stop()
		for _, name := range names {
			Expect(seen[name]).To(HaveLen(1+bools(before[name] == rack)), "%s was in %s, and %s was freed", name, before[name], rack)
		}
		for _, pod := range w.all() {
			Expect(nodes[pod.Spec.NodeName]).NotTo(Equal(rack))
			Expect(pod.Annotations).NotTo(HaveKey(leaving.AnnotationEviction), "pod %s is still requested to move", pod.Name)
		}
		for node, of := range nodes {
			Expect(get(w, &corev1.Node{}, "", node).Spec.Unschedulable).To(Equal(of == rack), "node %s of %s", node, of)
		}
	}, SpecTimeout(suite.Timeout()))
})

func bools(is bool) int {
	if is {
		return 1
	}
	return 0
}
