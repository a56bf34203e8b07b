// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/test/testutil/graphs"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
	"github.com/trellis-k8s/trellis/test/testutil/tier"
)

// rivals are two operators that both lead, of which each knows one of the two racks.
type rivals struct {
	*inPlaceWorld
	second *bare
	writes [2]*podWrites
	// level is the label of the nodes of one domain; together reports whether two pods have to be in one.
	level    string
	together func(a, b *corev1.Pod) bool
}

func newRivals(ctx SpecContext, gateAll bool, zones [2]string) *rivals {
	GinkgoHelper()
	r := &rivals{inPlaceWorld: newInPlaceWorldIn(ctx, nil, zones[0], zones[1])}
	r.stop()
	r.change = func(o *Options) { o.GateAllPods = gateAll }
	r.config = withoutNodes(r.namespace+"-b0", r.namespace+"-b1")
	r.writes = [2]*podWrites{r.podWrites, {}}
	delays := rand.New(rand.NewPCG(uint64(GinkgoRandomSeed()), 0))
	for _, of := range r.writes {
		of.stored = func(pod *corev1.Pod) error {
			r.awaitRival(pod)
			return nil
		}
		of.patches = func() { // what one operator releases first may be what the other one releases last
			r.mu.Lock()
			delay := time.Duration(delays.IntN(20)) * time.Millisecond
			r.mu.Unlock()
			<-time.After(delay)
		}
	}
	r.start()
	r.second = newBareOn(ctx, withoutNodes(r.namespace+"-a0", r.namespace+"-a1"), r.writes[1].newClient, r.change)
	return r
}

// awaitRival gives the other operator time to begin what it planned before this one continues.
func (r *rivals) awaitRival(pod *corev1.Pod) {
	begun := func(of *podWrites) bool { return slices.Contains(of.all("+"), "+"+pod.Name) }
	_ = wait.PollUntilContextTimeout(r.ctx, time.Millisecond, 100*time.Millisecond, true, func(context.Context) (bool, error) {
		return begun(r.writes[0]) && begun(r.writes[1]), nil
	})
}

// apart returns an error for pods that are elsewhere than others with which they are to be together. A request of one operator that is
// carried out after the other operator has placed the replica again splits it; its pods are of an earlier attempt, and deleted.
func (r *rivals) apart() error {
	pods := r.pods(r.namespace)
	for i := range pods {
		for j := range pods {
			here, there := pods[i].Spec.NodeSelector[r.level], pods[j].Spec.NodeSelector[r.level]
			if here != there && r.together(&pods[i], &pods[j]) {
				return fmt.Errorf("%s is in %q, %s in %q", pods[i].Name, here, pods[j].Name, there)
			}
		}
	}
	return nil
}

// contested reports whether one operator has placed the graph while the other one did, both have released one pod, or one was refused the
// create of a pod.
func (r *rivals) contested(gateAll bool) bool {
	if len(r.writes[0].all("?"))+len(r.writes[1].all("?")) > 0 {
		return true
	}
	second := r.writes[1].all("~")
	return slices.ContainsFunc(r.writes[0].all("~"), func(patch string) bool { return slices.Contains(second, patch) }) ||
		!gateAll && len(r.writes[0].all("!"))+len(r.writes[1].all("!")) > 0
}

// removed deletes a graph, and what is left of it: no garbage collector runs.
func (r *rivals) removed(dgd client.Object) {
	GinkgoHelper()
	Expect(r.c.Delete(r.ctx, dgd)).To(Succeed())
	r.until("nothing is left", func() error {
		for _, kind := range []client.Object{&trellisv1alpha1.ScalingGroup{}, &corev1.Pod{}} {
			Expect(r.c.DeleteAllOf(r.ctx, kind, client.InNamespace(r.namespace), client.GracePeriodSeconds(0))).To(Succeed())
		}
		if n := len(r.pods(r.namespace)); n > 0 {
			return fmt.Errorf("%d pods are left", n)
		}
		return nil
	})
}

var _ = Describe("Two operators that both lead", func() {
	type graph struct {
		// zones are those of the two racks, packed is the domain of the graph.
		zones      [2]string
		packed     string
		components graphs.Components
		pods       int
		level      string
		together   func(a, b *corev1.Pod) bool
	}
	all := func(*corev1.Pod, *corev1.Pod) bool { return true }
	ofGroup := func(a, b *corev1.Pod) bool {
		return a.Labels[render.LabelScalingGroup] == b.Labels[render.LabelScalingGroup]
	}
	zone, rack := corev1.LabelTopologyZone, "example.com/rack"
	apart, one := [2]string{"a", "b"}, [2]string{"z", "z"}

	DescribeTable("split neither a graph nor a component, nor a replica", func(ctx SpecContext, gateAll bool, of graph) {
		r := newRivals(ctx, gateAll, of.zones)
		r.level, r.together = of.level, of.together
		contested, times := false, 30
		if tier.Core() {
			times = 6
		}
		for i := 0; i < times || i < 60 && !contested; i++ {
			for _, writes := range r.writes {
				writes.forget()
			}
			dgd := r.graph(of.packed, of.components)
			Expect(r.c.Create(ctx, dgd)).To(Succeed())
			r.open(of.pods)
			r.until("all pods are where they have to be together", r.apart)
			r.open(of.pods)
			contested = contested || r.contested(gateAll)
			r.removed(dgd)
		}
		for _, operator := range []*bare{r.second, r.bare} {
			operator.stop()
			operator.stop = func() {}
		}
		Expect(contested).To(BeTrue(), "both operators want one pod")
	},
		Entry("whose base gang is created in place", SpecTimeout(suite.Timeout()), false, graph{apart, "zone", three(), 4, zone, all}),
		Entry("whose gangs are gated", SpecTimeout(suite.Timeout()), true, graph{
			apart, "zone", graphs.Components{"A": graphs.Worker(3, 1, 2, ""), "B": graphs.Worker(2, 2, 2, "rack")}, 7, zone, all,
		}),
		Entry("whose components share racks of its zone, gated", SpecTimeout(suite.Timeout()), true, graph{
			one, "zone", graphs.Components{"A": graphs.Worker(3, 1, 2, "rack"), "B": graphs.Worker(1, 2, 2, "rack"), "C": graphs.Worker(1, 1, 1, "")},
			6, rack, ofGroup,
		}),
		Entry("whose component shares a rack of its zone, and does not begin the graph, gated", SpecTimeout(suite.Timeout()), true, graph{
			one, "zone", graphs.Components{"A": graphs.Worker(1, 1, 1, ""), "B": graphs.Worker(4, 1, 2, "rack")}, 5, rack, ofGroup,
		}),
		Entry("whose component shares a zone, in place", SpecTimeout(suite.Timeout()), false, graph{
			apart, "", graphs.Components{"A": graphs.Worker(4, 1, 2, "zone")}, 4, zone, all,
		}),
		Entry("whose component shares a zone, gated", SpecTimeout(suite.Timeout()), true, graph{
			apart, "", graphs.Components{"A": graphs.Worker(4, 1, 2, "zone")}, 4, zone, all,
		}),
	)
})
