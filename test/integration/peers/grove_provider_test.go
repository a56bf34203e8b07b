// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"context"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/provider"
	"github.com/trellis-k8s/trellis/internal/provider/grove"
	"github.com/trellis-k8s/trellis/internal/provider/grove/workload"
	"github.com/trellis-k8s/trellis/internal/provider/kai"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
	"github.com/trellis-k8s/trellis/internal/topologybinding"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

func probed(ctx context.Context) *workload.Workload {
	GinkgoHelper()
	w := workload.New(typed, typed)
	w.TopologyKept = func(context.Context) bool { return true }
	state, err := w.Probe(ctx)
	Expect(err).NotTo(HaveOccurred())
	Expect(state).To(HaveField("Ready", true))
	return w
}

func groveObject(ctx context.Context, kind, name string) *unstructured.Unstructured {
	GinkgoHelper()
	object, err := client.Resource(resources[kind]).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	Expect(err).NotTo(HaveOccurred())
	return object
}

// beAmiss matches the observation of a graph that is not placed as asked for, for this reason.
func beAmiss(reason, part string) types.GomegaMatcher {
	return And(HaveField("Placed", false), HaveField("Reason", reason), HaveField("Message", ContainSubstring(part)))
}

var _ = Describe("The workload Grove", labelGrove, func() {
	// prefix begins the names of Grove's objects. From v0.1.0-alpha.12 on, the names of gangs have an epoch.
	DescribeTable("is written once, counted, reported when it strays or loses its topology, and scaled", func(ctx SpecContext, name, prefix string) {
		s, w := newScenario(ctx, name, specs.Grove.Name), probed(ctx)
		Expect(w.Unsuited(s.groups)).To(BeEmpty())
		apply := func() {
			GinkgoHelper()
			Expect(w.Apply(ctx, s.dgd, s.groups)).To(Succeed())
		}
		observe := func() provider.Observation {
			GinkgoHelper()
			o, err := w.Observe(ctx, typed, s.groups)
			Expect(err).NotTo(HaveOccurred())
			return o
		}
		apply()
		set := groveObject(ctx, "PodCliqueSet", name)
		apply()
		Expect(groveObject(ctx, "PodCliqueSet", name).GetResourceVersion()).To(Equal(set.GetResourceVersion()), "it was written though nothing changed")
		Expect(observe()).To(beAmiss(workload.CodeWaitsForGrove, "Grove has not created PodClique "+name+"-0-frontend yet"), "before Grove did anything")

		By("Grove makes its objects and schedules them")
		template := read[grove.PodCliqueSet](set).Spec.Template
		frontend := groveMakes(ctx, namespace, name, template.Cliques[2], prefix+"frontend")
		group := groveMakesGroup(ctx, namespace, name, prefix+"decode", 2, "decode-ldr", "decode-wkr")
		status(ctx, frontend, `
  {observedGeneration: 1, replicas: 2, readyReplicas: 2, scheduledReplicas: 2, updatedReplicas: 2, scheduleGatedReplicas: 0}`)
		status(ctx, group, `
  {observedGeneration: 1, replicas: 2, availableReplicas: 1, scheduledReplicas: 2, updatedReplicas: 2}`)
		o := observe()
		want := map[string]provider.Counts{"Decode": {Replicas: 2, Updated: 2, Scheduled: 2, Ready: 1}, "Frontend": {Replicas: 2, Updated: 2, Scheduled: 2, Ready: 2}}
		Expect(cmp.Diff(want, o.Counts)).To(BeEmpty(), "(-want +got)")
		Expect(o).To(And(HaveField("Placed", true), HaveField("Message", ContainSubstring("Decode: Grove chooses the zone of each replica after the first"))))
		part, err := w.Observe(ctx, typed, s.groups[:1])
		Expect(err).NotTo(HaveOccurred())
		Expect(part.Counts).To(HaveKeyWithValue("Decode", want["Decode"]), "one service")

		By("a later replica strays")
		for ordinal, zone := range map[string]string{"0": "a", "1": "b"} {
			s.place(ctx, ordinal, zone)
		}
		Expect(observe()).To(beAmiss(gang.CodeOutsideGraphDomain, "in zone a, but Grove placed Decode-1 in b"))

		By("the topology is gone: never placed as asked for")
		status(ctx, set, `
  availableReplicas: 0
  updatedReplicas: 0
  conditions: [{type: TopologyLevelsUnavailable, status: Unknown, reason: ClusterTopologyNotFound, message: gone, lastTransitionTime: "2026-01-01T00:00:00Z", observedGeneration: 1}]`)
		Expect(observe()).To(beAmiss(nvidiav1alpha1.ReasonTopologyDefinitionNotFound, ""))

		By("scaled: the object is, and the template follows")
		s.groups[0].Spec.Replicas, s.groups[1].Spec.Replicas = 3, 0
		apply()
		for kind, replicas := range map[string]int64{"PodCliqueScalingGroup/decode": 3, "PodClique/frontend": 0} {
			kind, component, _ := strings.Cut(kind, "/")
			got, _, err := unstructured.NestedInt64(groveObject(ctx, kind, prefix+component).Object, "spec", "replicas")
			Expect(err).NotTo(HaveOccurred())
			Expect(got).To(Equal(replicas), "replicas of %s %s", kind, component)
		}
		template = read[grove.PodCliqueSet](groveObject(ctx, "PodCliqueSet", name)).Spec.Template
		Expect(template.Cliques[2].Spec.Replicas).To(BeEquivalentTo(1), "replicas in the template")
		Expect(template.TerminationDelay.Duration).To(BeNumerically(">=", 365*24*time.Hour), "Grove ends the gang of a deployment with a service without replicas")

		By("its owner was deleted with --cascade=orphan: the next one of that name adopts it")
		orphaned := groveObject(ctx, "PodCliqueSet", name)
		orphaned.SetOwnerReferences(nil)
		Expect(resourceOf(orphaned).Update(ctx, orphaned, metav1.UpdateOptions{})).Error().NotTo(HaveOccurred())
		apply()
		adopted := groveObject(ctx, "PodCliqueSet", name)
		Expect(adopted.GetUID()).To(Equal(orphaned.GetUID()), "it was recreated")
		Expect(metav1.IsControlledBy(adopted, s.dgd)).To(BeTrue(), "not adopted: %v", adopted.GetOwnerReferences())
	},
		Entry("under the names of v0.1.0-alpha.11", SpecTimeout(suite.Timeout()), "whole", "whole-0-"),
		Entry("under names with an epoch", SpecTimeout(suite.Timeout()), "epoch", "epoch-0-1788533963425275530-"),
	)

	It("is ready, and names a KAI that evicts gangs which lack a pod", Serial, SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		shard := &unstructured.Unstructured{}
		shard.SetGroupVersionKind(kai.SchedulingShardKind)
		shard.SetName("default")
		shard = accepted(ctx, shard)
		state, err := workload.New(typed, typed).Probe(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(state).To(And(HaveField("Ready", true), HaveField("Message", ContainSubstring("of the SchedulingShard default to"))))
		Expect(unstructured.SetNestedStringMap(shard.Object, map[string]string{"default-staleness-grace-period": "-1"}, "spec", "args")).To(Succeed())
		Expect(resourceOf(shard).Update(ctx, shard, metav1.UpdateOptions{})).Error().NotTo(HaveOccurred())
		Expect(workload.New(typed, typed).Probe(ctx)).To(HaveField("Message", BeEmpty()))
	})

	It("gets a binding without references where Trellis keeps no Topology of KAI", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		alone := probed(ctx)
		alone.TopologyKept = func(context.Context) bool { return false }
		k := newKeeping(ctx, "alone", "ClusterTopologyBinding", alone.KeepBinding)
		Expect(k.keep()).To(BeEmpty())
		Expect(read[topologybinding.Binding](k.get()).Spec.SchedulerTopologyBindings).To(BeEmpty())
	})

	It("gets no binding for a topology that is one", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		k := newBindingKeeping(ctx, "is-binding", "ClusterTopologyBinding", probed(ctx).KeepBinding)
		before := k.get().GetResourceVersion()
		k.ct.Spec.Levels = k.ct.Spec.Levels[1:]
		Expect(k.keep()).To(BeEmpty())
		Expect(k.get().GetResourceVersion()).To(Equal(before), "it was written")
		Expect(client.Resource(resources[k.kind]).Delete(ctx, k.ct.Name, metav1.DeleteOptions{})).To(Succeed())
		Expect(k.keep()).To(BeEmpty())
		_, err := client.Resource(resources[k.kind]).Get(ctx, k.ct.Name, metav1.GetOptions{})
		Expect(apierrors.IsNotFound(err)).To(BeTrue(), "it was made again: %v", err)
	})

	It("gets a binding with KAI's Topology that follows the levels, unless it is another's", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		k := newKeeping(ctx, "bound", "ClusterTopologyBinding", probed(ctx).KeepBinding)
		Expect(k.keep()).To(BeEmpty())
		binding := read[topologybinding.Binding](k.get())
		Expect(binding.Spec.SchedulerTopologyBindings).To(ConsistOf(HaveField("TopologyReference", "bound")))
		k.ct.Spec.Levels = k.ct.Spec.Levels[1:]
		Expect(k.keep()).To(BeEmpty(), "levels changed")
		Expect(k.get().GetUID()).To(Equal(binding.UID), "levels changed")
		Expect(read[topologybinding.Binding](k.get()).Spec.Levels).To(HaveLen(3))
		k.disown()
		k.ct.Spec.Levels = k.ct.Spec.Levels[1:]
		Expect(k.keep()).To(ContainSubstring("left unchanged"), "another's")
	})
})
