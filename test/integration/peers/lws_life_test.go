// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"fmt"
	"strings"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime/pkg/client"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/provider/external"
	"github.com/trellis-k8s/trellis/internal/provider/kai"
	"github.com/trellis-k8s/trellis/internal/provider/lws"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/test/testutil/providertest"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

const inSets = `
metadata: {name: g, namespace: NS, annotations: {trellis.dev/workload: LeaderWorkerSet, nvidia.com/dynamo-discovery-backend: etcd}}
spec:
  topologyConstraint: {topologyProfile: NS, packDomain: zone}
  services:
    Decode:
      componentType: worker
      replicas: 2
      multinode: {nodeCount: 3}
      topologyConstraint: {packDomain: rack}
      resources: {limits: {gpu: "8"}}
      extraPodSpec: {mainContainer: {image: registry.example/image:1, command: [python3, -m, dynamo.sglang], args: [--tp, "24"]}}`

const placedYes = "True AllReplicasPlaced: "

// A deployment under Gates is taken through its life with LeaderWorkerSets as its workload. Each of these has an operator of its own, and the last
// switches LeaderWorkerSet's API off: they are Serial.
var _ = Describe("A deployment with LeaderWorkerSets", labelLWS, Serial, Ordered, suite.Slow, func() {
	var (
		w   *lwsWorld
		dgd *nvidiav1beta1.DynamoGraphDeployment
		// first are the pods that ran first.
		first map[string]types.UID
	)

	BeforeAll(func(ctx SpecContext) {
		w = newLWSWorld(ctx, "life")
		w.held["g-decode-r1-0-2"] = true
		dgd = made(ctx, providertest.Deployment(GinkgoTB(), strings.ReplaceAll(inSets, "NS", w.ns)))
	})

	It("has sets as they are rendered, and no replica is released of which a pod is missing", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		w.ctx = ctx
		w.until("the base gang is released, and the replica without a worker is not",
			"0: 3 pods, 3 released, 0 bound, 1 racks; 1: 2 pods, 0 released, 0 bound, 0 racks", w.replicas)
		w.until("the provider says who makes the pods",
			"True ProviderAvailable: Gates, chosen by default; multinode components have the workload LeaderWorkerSet",
			func() string { return w.condition(nvidiav1alpha1.ConditionProviderReady) })
		for ordinal, name := range []string{"g-decode-r0", "g-decode-r1"} {
			have, want := w.set(name), w.wanted(int32(ordinal))
			Expect(external.Missing(want, have)).To(BeEmpty(), "a field of %s that differs from what is rendered", name)
			Expect(external.Missing(have, want)).To(BeEmpty(), "a field of %s that is not rendered", name)
			Expect(metav1.IsControlledBy(have, w.group())).To(BeTrue(), "%s does not belong to the scaling group: %v", name, have.GetOwnerReferences())
			Expect(metav1.IsControlledBy(w.group(), dgd)).To(BeTrue(), "the scaling group does not belong to the deployment")
		}
		for _, pod := range w.pods() {
			Expect(metav1.GetControllerOf(pod).Kind).To(Equal("StatefulSet"), "pod %s is one of our own", pod.Name)
		}
	})

	It("is released, each replica into one rack, and counted when it is whole", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		w.ctx = ctx
		delete(w.held, "g-decode-r1-0-2")
		w.until("each replica is released into one rack of its own", "0: 3 pods, 3 released, 0 bound, 1 racks; 1: 3 pods, 3 released, 0 bound, 1 racks", w.replicas)
		w.run()
		w.until("bound and ready", "2 there, 2 updated, 2 ready", w.counts)
		w.until("placed", "2 of 2", w.placements)
		Expect(w.condition(nvidiav1alpha1.ConditionPlaced)).To(HavePrefix(placedYes))
		first = w.uids()
	})

	It("is scaled in and out by its youngest set, and the other one is left alone", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		w.ctx = ctx
		version := w.set("g-decode-r0").GetResourceVersion()
		w.scale(1)
		w.until("the younger set goes with its pods", "g-decode-r0", w.sets)
		w.until("counted", "1 there, 1 updated, 1 ready", w.counts)
		Expect(w.set("g-decode-r0").GetResourceVersion()).To(Equal(version), "the other replica was touched")
		Expect(w.uids()).To(HaveKeyWithValue("g-decode-r0-0-1", first["g-decode-r0-0-1"]), "the other replica was touched")
		Expect(w.replicas()).To(Equal("0: 3 pods, 3 released, 3 bound, 1 racks"), "pods are left")

		w.scale(2)
		w.until("released into one rack", "0: 3 pods, 3 released, 3 bound, 1 racks; 1: 3 pods, 3 released, 0 bound, 1 racks", w.replicas)
		w.run()
		w.until("ready again", "2 there, 2 updated, 2 ready", w.counts)
		w.until("placed", "2 of 2", w.placements)
	})

	It("has a replica that lost a pod recreated, whole and in its rack", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		w.ctx = ctx
		before, place := w.uids(), w.places()
		w.must(typed.Delete(ctx, w.find("g-decode-r1-0-2"), ctrl.GracePeriodSeconds(0)))
		w.replaced("a pod is lost: its replica is recreated, whole", before, "g-decode-r1")
		w.run()
		w.until("ready again", "2 there, 2 updated, 2 ready", w.counts)
		w.until("placed", "2 of 2", w.placements)
		Expect(cmp.Diff(place, w.places())).To(BeEmpty(), "it did not return to its rack (-before +after)")
		Expect(w.uids()).To(HaveKeyWithValue("g-decode-r0-0", first["g-decode-r0-0"]), "the other replica was touched")
	})

	It("is updated one set after the other", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		w.ctx = ctx
		before := w.uids()
		w.change(func(dgd *nvidiav1alpha1.DynamoGraphDeployment) {
			dgd.Spec.Services["Decode"].ExtraPodSpec.MainContainer.Args = []string{"--tp", "24", "--verbose"}
		})
		w.rolls("updated", before)
	})

	It("is restarted one set after the other", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		w.ctx = ctx
		before := w.uids()
		w.change(func(dgd *nvidiav1alpha1.DynamoGraphDeployment) {
			dgd.Spec.Restart = &nvidiav1alpha1.Restart{ID: "now"}
		})
		w.rolls("restarted", before)
	})

	It("keeps its pods while the API is switched off, and further replicas wait for it", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		w.ctx = ctx
		DeferCleanup(func(ctx SpecContext) { serve(ctx, lws.Kind.Kind, true) })
		before := w.uids()
		serve(ctx, lws.Kind.Kind, false)
		w.until("it is reported", "False APINotServed", func() string { return firstTwo(w.condition(nvidiav1alpha1.ConditionProviderReady)) })
		w.scale(3)
		w.until("the third replica waits, and it is said for what",
			"False ProviderNotReady: 2 of 3 packed replicas are placed. Decode-2: leaderworkersets.leaderworkerset.x-k8s.io is not served in version v1; "+
				"install LeaderWorkerSet",
			func() string { return w.condition(nvidiav1alpha1.ConditionPlaced) })
		Expect(w.uids()).To(Equal(before), "what runs was touched")
		serve(ctx, lws.Kind.Kind, true)
		w.until("it is back: the third replica is made and released",
			"0: 3 pods, 3 released, 3 bound, 1 racks; 1: 3 pods, 3 released, 3 bound, 1 racks; 2: 3 pods, 3 released, 0 bound, 1 racks", w.replicas)
		now := w.uids()
		for name, uid := range before {
			Expect(now).To(HaveKeyWithValue(name, uid), "a pod was replaced")
		}
	})
})

var _ = Describe("A deployment with LeaderWorkerSets under KAI", labelLWS, labelKAI, Serial, func() {
	It("is released as members of its PodGroup", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		w := newLWSWorld(ctx, "life-kai")
		dgd := providertest.Deployment(GinkgoTB(), strings.ReplaceAll(inSets, "NS", w.ns))
		dgd.Annotations[render.AnnotationProvider] = specs.KAI.Name
		made(ctx, dgd)
		w.until("whole and released", "0: 3 pods, 3 released, 0 bound, 1 racks; 1: 3 pods, 3 released, 0 bound, 1 racks", w.replicas)
		group, err := client.Resource(resources["PodGroup"]).Namespace(w.ns).Get(ctx, "g", metav1.GetOptions{})
		w.must(err)
		want := strings.ReplaceAll(`g needs 1 in one NS.zone
  g-decode-all needs 1
    g-decode-0 pods 3 in one NS.rack
    g-decode-1 pods 3 in one NS.rack
`, "NS", w.ns)
		Expect(cmp.Diff(want, strings.ReplaceAll(providertest.SketchKAI(read[kai.PodGroup](group)), "example.com/", ""))).To(BeEmpty(), "(-want +got)")
		for _, pod := range w.pods() {
			Expect(pod.Spec.SchedulerName).To(Equal(kai.SchedulerName), pod.Name)
			Expect(pod.Annotations).To(And(HaveKeyWithValue(kai.AnnotationPodGroup, "g"), HaveKeyWithValue(kai.AnnotationSkipGrouper, "true")), pod.Name)
			Expect(pod.Labels).To(HaveKeyWithValue(kai.LabelSubGroup, "g-decode-"+pod.Labels[render.LabelReplica]), pod.Name)
		}
	})
})

var _ = Describe("LeaderWorkerSets of a topology that is corrected", labelLWS, Serial, suite.Slow, func() {
	It("are recreated with the corrected levels and released", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		w := newLWSWorld(ctx, "levels")
		corrected := w.rackKey("example.com/rakc")
		made(ctx, providertest.Deployment(GinkgoTB(), strings.ReplaceAll(inSets, "NS", w.ns)))
		w.until("both sets have their pods, and nothing is released",
			"0: 3 pods, 0 released, 0 bound, 0 racks; 1: 3 pods, 0 released, 0 bound, 0 racks", w.replicas)
		before := w.uids()
		Expect(w.find("g-decode-r0-0").Annotations[render.AnnotationLevels]).To(ContainSubstring("rakc"))
		w.rackKey(corrected)
		w.until("both replicas are released", "0: 3 pods, 3 released, 0 bound, 1 racks; 1: 3 pods, 3 released, 0 bound, 1 racks", w.replicas)
		for _, pod := range w.pods() {
			Expect(pod.UID).NotTo(Equal(before[pod.Name]), "pod %s is prepared for the former key", pod.Name)
			Expect(pod.Annotations[render.AnnotationLevels]).To(ContainSubstring(corrected), pod.Name)
		}
	})
})

// rackKey changes the key of the level rack, and returns the former key.
func (w *lwsWorld) rackKey(key string) (former string) {
	GinkgoHelper()
	topology := &grovev1alpha1.ClusterTopology{}
	w.must(typed.Get(w.ctx, types.NamespacedName{Name: w.ns}, topology))
	before := topology.DeepCopy()
	for i := range topology.Spec.Levels {
		if level := &topology.Spec.Levels[i]; level.Domain == "rack" {
			former, level.Key = level.Key, key
		}
	}
	w.must(typed.Patch(w.ctx, topology, ctrl.MergeFrom(before))) // the operator writes the status meanwhile
	return former
}

// uids of the pods by name.
func (w *lwsWorld) uids() map[string]types.UID {
	GinkgoHelper()
	out := map[string]types.UID{}
	for _, pod := range w.pods() {
		out[pod.Name] = pod.UID
	}
	return out
}

func (w *lwsWorld) find(name string) *corev1.Pod {
	GinkgoHelper()
	pod := &corev1.Pod{}
	w.must(typed.Get(w.ctx, types.NamespacedName{Namespace: w.ns, Name: name}, pod))
	return pod
}

func (w *lwsWorld) scale(replicas int32) {
	GinkgoHelper()
	w.change(func(dgd *nvidiav1alpha1.DynamoGraphDeployment) {
		dgd.Spec.Services["Decode"].Replicas = ptr.To(replicas)
	})
}

// places are those of the replicas of which all pods are bound.
func (w *lwsWorld) places() []nvidiav1alpha1.ReplicaPlacement {
	return w.deployment().Status.Services["Decode"].Placements
}

// placements says how many replicas of which all pods are bound are in a rack.
func (w *lwsWorld) placements() string {
	bound, places := 0, w.places()
	for _, p := range places {
		if strings.HasPrefix(p.Domain, "z/b/r") {
			bound++
		}
	}
	return string(rune('0'+bound)) + " of " + string(rune('0'+len(places)))
}

// replaced waits until every pod of a set is another one, and released.
func (w *lwsWorld) replaced(title string, before map[string]types.UID, set string) {
	GinkgoHelper()
	w.until(title, "3 new, released", func() string {
		fresh := 0
		for _, pod := range w.pods() {
			if strings.HasPrefix(pod.Name, set+"-") && pod.UID != before[pod.Name] && !render.GateClosed(pod) {
				fresh++
			}
		}
		return string(rune('0'+fresh)) + " new, released"
	})
}

// rolls waits until every pod is another one and serves; meanwhile one replica serves at any time.
func (w *lwsWorld) rolls(title string, before map[string]types.UID) {
	GinkgoHelper()
	w.until(title+": one set after the other", "all new, 2 there, 2 updated, 2 ready", func() string {
		w.run()
		serving, fresh := map[string]int{}, "all new"
		for _, pod := range w.pods() {
			if pod.UID == before[pod.Name] {
				fresh = "not all new"
			}
			if pod.Spec.NodeName != "" && pod.DeletionTimestamp == nil {
				serving[pod.Labels[render.LabelReplica]]++
			}
		}
		if serving["0"] < 3 && serving["1"] < 3 {
			Fail(fmt.Sprintf("%s: no replica serves: %s", title, w.replicas()))
		}
		return fresh + ", " + w.counts()
	})
}

func firstTwo(condition string) string { return strings.SplitN(condition, ":", 2)[0] }
