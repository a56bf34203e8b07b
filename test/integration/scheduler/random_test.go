// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/provider/gates/placer"
	"github.com/trellis-k8s/trellis/internal/topology"
	"github.com/trellis-k8s/trellis/test/testutil/smallworld"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

const (
	// coreCases are those of make test, and allCases those of make test-all.
	coreCases, allCases = 8, 80
	mostNodes, mostPods = 6, 8
	// candidates are the clusters of which a case takes the one whose gang has most rules.
	candidates = 4
)

var _ = Describe("A gang on a random cluster", Serial, func() {
	for i := range allCases {
		var labels Labels
		if i >= coreCases {
			labels = suite.Slow
		}
		It(fmt.Sprintf("is bound as planned (case %d)", i), labels, SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
			seed := seed()
			By(fmt.Sprintf("drawing case %d of seed %d (RAPID_SEED=%d repeats it)", i, seed, seed))
			random := rand.New(rand.NewPCG(uint64(seed), uint64(i))) //nolint:gosec // a test that can be repeated
			w, plan := planned(ctx, random)
			releases := releasesOf(ctx, plan)
			random.Shuffle(len(releases), func(a, b int) { releases[a], releases[b] = releases[b], releases[a] })
			release(ctx, releases)
			bound(ctx, w, plan)
		})
	}
})

// seed is that of the properties, else of ginkgo.
func seed() int64 {
	if seed, err := strconv.ParseInt(os.Getenv("RAPID_SEED"), 10, 64); err == nil {
		return seed
	}
	return GinkgoRandomSeed()
}

// planned draws a cluster that has capacity for its gang, creates it, and plans the gang on what the API server has.
func planned(ctx context.Context, random *rand.Rand) (smallworld.World, smallworld.Plan) {
	GinkgoHelper()
	draw := rapid.Custom(smallworld.DrawMixed(mostNodes, mostPods))
	var best smallworld.World
	for found := 0; found < candidates; {
		w := draw.Example(int(random.Int32()))
		if accept(&w); len(w.Gang) > 1 && w.Plan().Refusal == nil {
			if found++; found == 1 || ruled(&w) > ruled(&best) {
				best = w
			}
		}
	}
	return planOn(ctx, &best)
}

// ruled counts the rules and claims of the pods that wait.
func ruled(w *smallworld.World) (count int) {
	for _, p := range w.Gang {
		count += len(p.Spec.TopologySpreadConstraints) + len(p.Spec.ResourceClaims) + len(p.Spec.Volumes)
		if a := p.Spec.Affinity; a != nil && a.PodAffinity != nil {
			count += 2 * len(a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution)
		}
	}
	return count
}

// planOn creates a cluster and a kube-scheduler, and plans the gang.
func planOn(ctx context.Context, w *smallworld.World) (smallworld.World, smallworld.Plan) {
	GinkgoHelper()
	DeferCleanup(deleteAll)
	create(ctx, w)
	found := read(ctx, w.Required)
	plan := found.Plan()
	AddReportEntry("the cluster", describe(&found, &plan), ReportEntryVisibilityFailureOrVerbose)
	if plan.Refusal != nil {
		Fail("refused on what the API server has of it: " + plan.Refusal.Message())
	}
	run("kube-scheduler", "--config="+config, "--secure-port=0")
	return found, plan
}

// release releases pods one by one: the next once the kube-scheduler has bound the one before it, or refused it.
func release(ctx context.Context, releases []gang.Release) {
	GinkgoHelper()
	for _, one := range releases {
		By("releasing " + one.Pod.Name)
		Expect(placer.Placer{Client: api, Live: api}.Release(ctx, one.Pod, one.Pin)).To(Succeed())
		pod := &corev1.Pod{}
		Eventually(ctx, func(g Gomega) {
			g.Expect(api.Get(ctx, client.ObjectKeyFromObject(one.Pod), pod)).To(Succeed())
			g.Expect(pod.Spec.NodeName != "" || refused(pod) != "").To(BeTrue(), "neither bound nor refused")
		}).Should(Succeed(), one.Pod.Name)
		if pod.Spec.NodeName == "" {
			AddReportEntry(pod.Name+" is refused at first", refused(pod), ReportEntryVisibilityFailureOrVerbose)
		}
	}
}

// releasesOf are the pods of the gang with the pins that the operator gives them.
func releasesOf(ctx context.Context, plan smallworld.Plan) []gang.Release {
	GinkgoHelper()
	pods := &corev1.PodList{}
	Expect(api.List(ctx, pods)).To(Succeed())
	request := &gang.Request{Graph: plan.Demand, Gated: map[string]*corev1.Pod{}}
	for i := range pods.Items {
		request.Gated[topology.PodID(&pods.Items[i])] = &pods.Items[i]
	}
	return request.Releases(plan.Cluster, plan.ReplicaResult, "")
}

// refused is what the kube-scheduler says to a pod that it has tried and not bound.
func refused(pod *corev1.Pod) string {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason != corev1.PodReasonSchedulingGated {
			return c.Message
		}
	}
	return ""
}

// bound waits until the pods that were planned are bound, and checks where.
func bound(ctx context.Context, w smallworld.World, plan smallworld.Plan) {
	GinkgoHelper()
	By("waiting until all pods are bound")
	at := map[string]string{}
	for _, p := range plan.Pods {
		at[p.ID] = p.Node
	}
	for _, planned := range w.Gang {
		pod := &corev1.Pod{}
		Eventually(ctx, func(g Gomega) {
			g.Expect(api.Get(ctx, client.ObjectKeyFromObject(planned), pod)).To(Succeed())
			g.Expect(pod.Spec.NodeName).NotTo(BeEmpty(), func() string { return refused(pod) })
		}).Should(Succeed(), planned.Name)
		Expect(pod.UID).To(Equal(planned.UID), "a pod is recreated")
		Expect(pod.Spec.NodeName).To(Equal(at[topology.PodID(planned)]), "%s is planned elsewhere", planned.Name)
	}
}
