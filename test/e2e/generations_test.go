// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/rollout"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

// pair is 2 prefill replicas, each a rack of two hosts, and 4 decode replicas of one host each: four racks in all, and two more for a step.
var pair = map[string]int{"Prefill": 2, "Decode": 4}

func (w *world) pairIn(zone, unavailable, surge string) *nvidiav1alpha1.DynamoGraphDeployment {
	dgd := w.graphOf("g", zone, services{"Prefill": worker(2, 2, 8, "rack"), "Decode": worker(4, 1, 8, ""), "Frontend": frontend(1)})
	dgd.Annotations = map[string]string{rollout.AnnotationSharedMaxUnavailable: unavailable, rollout.AnnotationSharedMaxSurge: surge}
	return dgd
}

// generations sees every state of the workers' pods, and notes when all generations together serve less of the graph than they should.
type generations struct {
	*observer
	least float64
	// seen generations.
	seen map[string]bool
}

// followGenerations expects at least that part of the graph to be served at every moment, by whole generations.
func (w *world) followGenerations(least float64) *generations {
	w.t.Helper()
	g := &generations{observer: w.newObserver(), least: least, seen: map[string]bool{}}
	g.oneZone = true
	listed := false
	g.also = func(changed *corev1.Pod) { // the pods there are come one by one
		if listed = listed || len(g.pods) > 8; listed && changed.Labels[render.LabelWorkerHash] != "" {
			g.check()
		}
	}
	g.start(w.c)
	return g
}

func (g *generations) check() {
	sum := 0.0
	for _, served := range g.served() {
		sum += served
	}
	if sum < g.least-0.001 {
		g.failures = append(g.failures, fmt.Sprintf("the workers serve %v of the graph, by generation: %v", sum, g.served()))
	}
}

// served is how much of the graph each generation serves: as much as its least complete component.
func (g *generations) served() map[string]float64 {
	out := map[string]float64{}
	for _, pod := range g.pods {
		if generation := pod.Labels[render.LabelWorkerHash]; generation != "" {
			g.seen[generation] = true
			out[generation] = 1
		}
	}
	for generation := range out {
		for component, replicas := range pair {
			out[generation] = min(out[generation], float64(g.serving(component, generation))/float64(replicas))
		}
	}
	return out
}

// serving counts the replicas of a component and generation of which all pods serve.
func (g *generations) serving(component, generation string) int {
	pods := map[string][]*corev1.Pod{}
	for _, pod := range g.pods {
		if pod.Labels[render.LabelComponent] == component && pod.Labels[render.LabelWorkerHash] == generation {
			pods[pod.Labels[render.LabelReplica]] = append(pods[pod.Labels[render.LabelReplica]], pod)
		}
	}
	n := 0
	for _, replica := range pods {
		down := func(pod *corev1.Pod) bool { return !serves(pod) || pod.DeletionTimestamp != nil }
		if fmt.Sprint(len(replica)) == replica[0].Labels[render.LabelReplicaSize] && !slices.ContainsFunc(replica, down) {
			n++
		}
	}
	return n
}

// isUpdated: the update of the workers of g is completed, and all are of one generation.
func (w *world) isUpdated() error {
	if s := w.dgd("g").Status; s.RollingUpdate == nil || s.RollingUpdate.Phase != nvidiav1alpha1.RollingUpdateCompleted {
		return fmt.Errorf("the update is %+v", s.RollingUpdate)
	}
	return w.oneGeneration()
}

// oneGeneration: all workers are of one generation, with its suffix.
func (w *world) oneGeneration() error {
	found := map[string]bool{}
	for _, pod := range w.all() {
		if pod.Labels[render.LabelComponent] != "Frontend" {
			found[pod.Labels[render.LabelWorkerHash]] = true
		}
	}
	if len(found) != 1 || found[""] {
		return fmt.Errorf("the workers are of the generations %v", found)
	}
	return nil
}

// publish writes what Dynamo's runtime does in a worker's pod.
func (w *world) publish(pod *corev1.Pod) {
	w.t.Helper()
	metadata := &nvidiav1alpha1.DynamoWorkerMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace: pod.Namespace, Name: pod.Name + "-" + string(pod.UID)[:8],
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID}},
	}}
	metadata.Spec.Data.Raw = []byte(`{}`)
	if err := w.c.Create(w.t.Context(), metadata); err != nil && !apierrors.IsAlreadyExists(err) {
		w.t.Fatalf("publishing the metadata of pod %s: %v", pod.Name, err)
	}
}

func (w *world) frontends() map[types.UID]bool {
	out := map[types.UID]bool{}
	for _, pod := range w.all() {
		if pod.Labels[render.LabelComponent] == "Frontend" {
			out[pod.UID] = true
		}
	}
	return out
}

// updatePair changes the decode component alone, and waits until all workers are of the next generation; meanwhile is done again and again.
func (w *world) updatePair(meanwhile func()) {
	w.t.Helper()
	w.setImage("g", "Decode", "example.com/vllm:2")
	w.until("all workers are of the new generation", func() error {
		meanwhile()
		s := w.dgd("g").Status
		if s.RollingUpdate == nil || s.RollingUpdate.Phase != nvidiav1alpha1.RollingUpdateCompleted {
			return fmt.Errorf("the update is %+v", s.RollingUpdate)
		}
		return w.oneGeneration()
	})
	w.ready("g")
}

var _ = Describe("A generation of workers", func() {
	It("replaces the former one in step on a full cluster, half of it at a time", suite.Core, func(ctx SpecContext) {
		w := newWorld(ctx, "instep", racks(2, 8, "a/r0", "a/r1", "a/r2", "a/r3")...)
		w.create(w.pairIn("zone", "1", "0"))
		w.ready("g")
		Expect(w.oneGeneration()).To(Succeed())
		before, frontends := w.dgd("g"), w.frontends()
		watcher := w.followGenerations(0.5)
		w.updatePair(func() {})
		watcher.stop()
		Expect(watcher.seen).To(HaveLen(2), "the generations that there were")
		Expect(w.frontends()).To(Equal(frontends), "a frontend is not of the generation")

		now := w.dgd("g")
		Expect(now.Status.RollingUpdate.UpdatedServices).To(Equal([]string{"Decode", "Prefill"}))
		hash := now.Annotations[render.AnnotationWorkerHash]
		Expect(hash).To(HaveLen(8))
		Expect(hash).NotTo(Equal(before.Annotations[render.AnnotationWorkerHash]))
		for _, worker := range []string{"Prefill", "Decode"} {
			Expect(now.Status.Services[worker].RuntimeNamespace).To(HaveSuffix("-" + hash))
		}
	}, SpecTimeout(suite.Timeout()))

	It("replaces the former one in step with room for one step more, and all of it is served", func(ctx SpecContext) {
		w := newWorld(ctx, "instep-surge", racks(2, 8, "a/r0", "a/r1", "a/r2", "a/r3", "a/r4", "a/r5", "b/r0", "b/r1")...)
		w.create(w.pairIn("zone", "0", "1"))
		w.ready("g")
		watcher := w.followGenerations(1)
		w.updatePair(func() {})
		watcher.stop()
		Expect(watcher.seen).To(HaveLen(2), "the generations that there were")
		Expect(w.all()).To(w.bePlacedIn("zone", "a"))
	}, SpecTimeout(suite.Timeout()))

	// The decode replicas of the next generation are larger than any host. The former generation keeps its half, and its pods stay when it is wanted again.
	It("takes no more than its step when it never serves, and is reverted", func(ctx SpecContext) {
		w := newWorld(ctx, "instep-broken", racks(2, 8, "a/r0", "a/r1", "a/r2", "a/r3")...)
		w.create(w.pairIn("zone", "1", "0"))
		w.ready("g")
		former := w.dgd("g").Annotations[render.AnnotationWorkerHash]
		watcher := w.followGenerations(0.5)
		w.patch("g", `{"spec":{"services":{"Decode":{"resources":{"limits":{"gpu":"9"}}}}}}`)
		w.hasCondition("g", nvidiav1alpha1.ConditionRolledOut, metav1.ConditionFalse, nvidiav1alpha1.ReasonRolloutWaitsForCapacity,
			"Decode: 0 of 4 replicas serve the current revision, 2 serve in all", "Prefill: 1 of 2 replicas serve the current revision, 2 serve in all")
		kept := map[types.UID]bool{}
		for _, pod := range w.all() {
			if pod.Labels[render.LabelWorkerHash] == former && watcher.ready(pod.UID) {
				kept[pod.UID] = true
			}
		}
		Expect(kept).To(HaveLen(4), "the pods of 1 prefill and 2 decode replicas")
		w.patch("g", `{"spec":{"services":{"Decode":{"resources":{"limits":{"gpu":"8"}}}}}}`)
		w.until("all workers are of the former generation", w.oneGeneration)
		w.ready("g")
		watcher.stop()
		Expect(w.uids()).To(haveAllOf(kept), "a pod that served the former generation is gone")
	}, SpecTimeout(suite.Timeout()))

	// Pods of the sandbox run no runtime: the spec publishes for them.
	It("replaces the former one as new workers publish their metadata, where the former ones have", func(ctx SpecContext) {
		w := newWorld(ctx, "instep-published", racks(2, 8, "a/r0", "a/r1", "a/r2", "a/r3")...)
		w.create(w.pairIn("zone", "1", "0"))
		w.ready("g")
		former := w.dgd("g").Annotations[render.AnnotationWorkerHash]
		publish := func(is func(generation string) bool) {
			GinkgoHelper()
			for _, pod := range w.all() {
				if generation := pod.Labels[render.LabelWorkerHash]; generation != "" && is(generation) {
					w.publish(&pod)
				}
			}
		}
		publish(func(string) bool { return true })
		watcher := w.followGenerations(0.5)
		w.setImage("g", "Decode", "example.com/vllm:2")
		w.hasCondition("g", nvidiav1alpha1.ConditionRolledOut, metav1.ConditionFalse, "RollingOut",
			"Prefill: 0 of 2 replicas serve the current revision, 1 serve in all", "Decode: 0 of 4 replicas serve the current revision, 2 serve in all",
			"and has not published its DynamoWorkerMetadata")
		w.until("all workers are of the new generation", func() error {
			publish(func(generation string) bool { return generation != former })
			return w.isUpdated()
		})
		w.ready("g")
		watcher.stop()
	}, SpecTimeout(suite.Timeout()))
})

var _ = Describe("The update of workers", func() {
	It("is paused, resumed and aborted, and the former generation serves again until the next change", func(ctx SpecContext) {
		w := newWorld(ctx, "instep-abort", racks(2, 8, "a/r0", "a/r1", "a/r2", "a/r3")...)
		w.create(w.pairIn("zone", "1", "0"))
		w.ready("g")
		former, before := w.dgd("g").Annotations[render.AnnotationWorkerHash], w.uids()
		watcher := w.followGenerations(0.5)

		By("it is paused before it begins")
		w.patch("g", `{"metadata":{"annotations":{"trellis.dev/rollout-paused":"true"}}}`)
		w.patch("g", `{"spec":{"services":{"Decode":{"resources":{"limits":{"gpu":"9"}}}}}}`)
		w.hasCondition("g", nvidiav1alpha1.ConditionRolledOut, metav1.ConditionFalse, "RolloutPaused", "the update is paused")
		Expect(w.uids()).To(Equal(before), "a replica was replaced")

		By("it is resumed, and the new generation never serves")
		w.patch("g", `{"metadata":{"annotations":{"trellis.dev/rollout-paused":null}}}`)
		w.hasCondition("g", nvidiav1alpha1.ConditionRolledOut, metav1.ConditionFalse, nvidiav1alpha1.ReasonRolloutWaitsForCapacity, "Decode: 0 of 4 replicas")
		next := ""
		for _, pod := range w.all() {
			if generation := pod.Labels[render.LabelWorkerHash]; generation != "" && generation != former {
				next = generation
			}
		}
		Expect(next).To(HaveLen(8))

		By("it is aborted")
		w.patch("g", fmt.Sprintf(`{"metadata":{"annotations":{"trellis.dev/rollout-aborted":%q}}}`, next))
		w.hasCondition("g", nvidiav1alpha1.ConditionRolledOut, metav1.ConditionFalse, "RolledBack", "generation "+next+" was aborted", "generation "+former)
		w.until("all workers are of the former generation", func() error {
			for _, pod := range w.all() {
				if generation := pod.Labels[render.LabelWorkerHash]; generation != "" && generation != former {
					return fmt.Errorf("pod %s is of generation %s", pod.Name, generation)
				}
			}
			return w.oneGeneration()
		})
		w.ready("g")
		w.hasCondition("g", nvidiav1alpha1.ConditionRolledOut, metav1.ConditionFalse, "RolledBack")
		Expect(w.dgd("g").Annotations).To(HaveKeyWithValue(render.AnnotationWorkerHash, former))

		By("a lost replica of the former generation is recreated from what is stored")
		lost := w.pod("g-decode-0")
		Expect(w.c.Delete(ctx, lost)).To(Succeed())
		w.until("the replica is of the former generation", func() error {
			pod := &corev1.Pod{}
			if err := w.c.Get(ctx, types.NamespacedName{Namespace: lost.Namespace, Name: lost.Name}, pod); err != nil {
				return err
			}
			if pod.UID == lost.UID {
				return fmt.Errorf("pod %s is not recreated", lost.Name)
			}
			return w.oneGeneration()
		})
		w.ready("g")

		By("it is changed again")
		w.patch("g", `{"spec":{"services":{"Decode":{"resources":{"limits":{"gpu":"7"}}}}}}`)
		w.until("all workers are of a third generation", func() error {
			if now := w.dgd("g").Annotations[render.AnnotationWorkerHash]; now == former || now == next {
				return fmt.Errorf("generation %s is rolled out", now)
			}
			return w.oneGeneration()
		})
		w.ready("g")
		watcher.stop()
	}, SpecTimeout(suite.Timeout()))
})
