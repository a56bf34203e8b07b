// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package kueue

import (
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	"github.com/trellis-k8s/trellis/hack/sandbox"
	"github.com/trellis-k8s/trellis/hack/sandbox/peers"
	"github.com/trellis-k8s/trellis/internal/quota"
	"github.com/trellis-k8s/trellis/test/testutil/graphs"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

const (
	reserved = nvidiav1alpha1.ConditionQuotaReserved
	placed   = "Placed"
)

// workers returns replicas of two pods with 8 GPUs each, in one rack.
func workers(replicas int32) services {
	return services{"Worker": graphs.Worker(replicas, hostsPerRack, gpusPerHost, "rack")}
}

var _ = Describe("A deployment in a queue of the real Kueue", Serial, func() {
	It("is admitted, placed and bound, and gives its quota back", func(ctx SpecContext) {
		t := newHall(ctx, 3).newTeam("a", 48)
		of := workers(2)
		of["Frontend"] = graphs.Frontend(1)
		t.create(t.graph("g", of))
		t.ready("g")
		t.says("g", reserved, metav1.ConditionTrue, "QuotaReserved", "all 2 Workloads have quota in queue q")
		t.settle()
		t.until("the quota of all replicas is in use", func() error { return t.uses(32) })
		for replica := range 2 {
			t.inOneRack(t.podsOf("g", "Worker")[2*replica : 2*replica+2])
		}
		for _, pod := range t.pods() {
			Expect(pod.Spec.NodeSelector).To(HaveKeyWithValue(poolKey, t.name), "the flavor's label on %s", pod.Name)
		}

		By("scaling out and in: each replica has quota of its own")
		t.scale("g", "Worker", 3)
		t.until("three replicas have quota", func() error { return t.uses(48) })
		t.ready("g")
		t.scale("g", "Worker", 1)
		t.until("two replicas are gone", func() error { return t.uses(16) })
		t.settle()

		By("scaling all to 0")
		t.scale("g", "Worker", 0)
		t.says("g", reserved, metav1.ConditionTrue, "QuotaReserved", "has quota for 2 more pods than it has")
		t.until("the first replicas have one Workload", func() error { return t.uses(16) })
		t.scale("g", "Frontend", 0)
		t.until("nothing has quota", func() error { return t.uses(0) })
		t.scale("g", "Worker", 1)
		t.until("it has quota again", func() error { return t.uses(16) })
		t.settle()
	}, SpecTimeout(suite.Timeout()))

	It("keeps its quota through a lost pod, a restart and an update", func(ctx SpecContext) {
		t := newHall(ctx, 2).newTeam("a", 32)
		t.create(t.graph("g", workers(2)))
		t.ready("g")
		before := graphs.UIDs(t.pods())

		By("losing a pod: its replica is recreated")
		lost := t.podsOf("g", "Worker")[0]
		t.answered(func() error { return api.Delete(ctx, &lost) })
		t.until("the pod is recreated", func() error {
			if pods := t.podsOf("g", "Worker"); len(pods) != 4 || graphs.UIDs(pods)[lost.UID] {
				return fmt.Errorf("%d pods", len(pods))
			}
			return t.settled()
		})
		t.until("the quota of all replicas is in use", func() error { return t.uses(32) })

		By("updating: no second quota is needed")
		t.patch("g", `{"metadata":{"annotations":{"nvidia.com/deployment-rolling-update-max-surge":"0"}}}`)
		t.patch("g", `{"spec":{"services":{"Worker":{"extraPodSpec":{"mainContainer":{"image":"example.com/vllm:2"}}}}}}`)
		t.until("all pods are new", func() error {
			if err := graphs.AllNew(before, t.podsOf("g", "Worker"), 4); err != nil {
				return err
			}
			return t.settled()
		})
		t.ready("g")
		t.until("the quota of all replicas is in use", func() error { return t.uses(32) })
	}, SpecTimeout(suite.Timeout()))

	It("is updated within its quota where there is none for a surplus replica", func(ctx SpecContext) {
		t := newHall(ctx, 4).newTeam("a", 16)
		t.create(t.graph("g", workers(1)))
		t.ready("g")
		before := graphs.UIDs(t.pods())
		t.patch("g", `{"metadata":{"annotations":{"nvidia.com/deployment-rolling-update-max-unavailable":"0"}}}`)
		t.patch("g", `{"spec":{"services":{"Worker":{"extraPodSpec":{"mainContainer":{"image":"example.com/vllm:2"}}}}}}`)
		t.until("all pods are new", func() error {
			if err := graphs.AllNew(before, t.podsOf("g", "Worker"), hostsPerRack); err != nil {
				return err
			}
			return t.settled()
		})
		t.ready("g")
		t.until("the quota of all replicas is in use", func() error { return t.uses(16) })
	}, SpecTimeout(suite.Timeout()))

	It("has several components updated in step within their quota", func(ctx SpecContext) {
		t := newHall(ctx, 4).newTeam("a", 32)
		of := services{"Prefill": graphs.Worker(1, hostsPerRack, gpusPerHost, "rack"), "Decode": graphs.Worker(1, hostsPerRack, gpusPerHost, "rack")}
		t.create(t.graph("g", of))
		t.ready("g")
		before := graphs.UIDs(t.pods())
		t.patch("g", `{"metadata":{"annotations":{"trellis.dev/rolling-update-max-unavailable":"0"}}}`)
		t.patch("g", `{"spec":{"services":{"Decode":{"extraPodSpec":{"mainContainer":{"image":"example.com/vllm:2"}}}}}}`)
		t.until("all pods are new", func() error {
			if err := graphs.AllNew(before, t.pods(), 2*hostsPerRack); err != nil {
				return err
			}
			return t.settled()
		})
		t.ready("g")
		t.until("the quota of all replicas is in use", func() error { return t.uses(32) })
	}, SpecTimeout(suite.Timeout()))

	It("stays inactive where an administrator has deactivated its Workload", func(ctx SpecContext) {
		t := newHall(ctx, 2).newTeam("a", 32)
		t.create(t.graph("g", workers(1)))
		t.ready("g")
		workload := t.workloads()[0]
		activate := func(active bool) {
			object := kueueObject("Workload", t.namespace, workload.Name, nil)
			t.answered(func() error { return api.Patch(ctx, object, merge(fmt.Sprintf(`{"spec":{"active":%v}}`, active))) })
		}
		activate(false)
		t.says("g", reserved, metav1.ConditionFalse, "QuotaPending", "0 of 1 Workloads", "deactivated")
		t.settle()
		Expect(t.running()).To(BeZero())

		By("activating it")
		activate(true)
		t.ready("g")
		t.settle()
	}, SpecTimeout(suite.Timeout()))

	It("asks again with a new Workload when its template changes after Kueue itself has deactivated the one of before", func(ctx SpecContext) {
		t := newHall(ctx, 2).newTeam("a", 0)
		t.create(t.graph("g", workers(1)))
		t.says("g", reserved, metav1.ConditionFalse, "QuotaPending", "0 of 1 Workloads")
		former := t.workloads()[0]
		object := kueueObject("Workload", t.namespace, former.Name, nil)
		t.answered(func() error { return api.Patch(ctx, object, merge(`{"spec":{"maximumExecutionTimeSeconds":1}}`)) })
		t.quotaIs(16)
		t.says("g", reserved, metav1.ConditionFalse, "QuotaPending", "Kueue has deactivated it for MaximumExecutionTimeExceeded")
		t.settle()
		Expect(t.running()).To(BeZero())

		By("correcting the image")
		t.patch("g", `{"spec":{"services":{"Worker":{"extraPodSpec":{"mainContainer":{"image":"example.com/vllm:2"}}}}}}`)
		t.ready("g")
		t.settle()
		Expect(t.workloads()[0].UID).NotTo(Equal(former.UID))
	}, SpecTimeout(suite.Timeout()))

	It("waits whole for what exceeds the quota, with Kueue's own words", func(ctx SpecContext) {
		t := newHall(ctx, 3).newTeam("a", 16)
		t.create(t.graph("g", workers(2)))
		t.says("g", reserved, metav1.ConditionFalse, "QuotaPending", "1 of 2 Workloads have quota in queue q", "insufficient", gpuResource)
		t.says("g", placed, metav1.ConditionFalse, "WaitingForAdmission", quota.Gate)
		t.settle()
		Expect(t.running()).To(Equal(int64(16)))
	}, SpecTimeout(suite.Timeout()))

	It("says at once what can never have quota", func(ctx SpecContext) {
		t := newHall(ctx, 3).newTeam("a", 16)
		By("a queue that does not exist")
		unknown := t.graph("unknown", workers(1))
		unknown.Labels["kueue.x-k8s.io/queue-name"] = "none"
		t.create(unknown)
		t.says("unknown", reserved, metav1.ConditionFalse, "QuotaPending", "none", "doesn't exist")

		By("a resource that the queue does not cover")
		uncovered := workers(1)
		uncovered["Worker"].Resources.Limits.CPU = "1"
		t.create(t.graph("uncovered", uncovered))
		t.says("uncovered", reserved, metav1.ConditionFalse, "QuotaPending", "resource cpu unavailable in ClusterQueue")

		By("a gang that is larger than the quota")
		t.create(t.graph("large", services{"Worker": graphs.Worker(1, 2*hostsPerRack, gpusPerHost, "zone")}))
		t.says("large", reserved, metav1.ConditionFalse, "QuotaPending", "insufficient quota for "+gpuResource)
		Expect(t.running()).To(BeZero())

		By("naming a queue that exists")
		t.patch("unknown", `{"metadata":{"labels":{"kueue.x-k8s.io/queue-name":"q"}}}`)
		t.ready("unknown")
	}, SpecTimeout(suite.Timeout()))

	It("ends whole when a team takes back what it has lent, and returns", func(ctx SpecContext) {
		h := newHall(ctx, 2)
		a, b := h.newTeam("a", 16), h.newTeam("b", 16)
		a.create(a.graph("lent", workers(2)))
		a.ready("lent")
		a.until("one replica is on what team b has not used", func() error { return a.uses(32) })
		b.create(b.graph("own", workers(1)))
		b.ready("own")
		a.says("lent", reserved, metav1.ConditionFalse, "QuotaPending", "1 of 2 Workloads")
		h.settle()
		Expect(a.running()).To(Equal(int64(16)))
		b.inOneRack(b.pods())
		b.remove("own")
		a.ready("lent")
		h.settle()
	}, SpecTimeout(suite.Timeout()))

	It("is preempted whole by one of a higher priority in its queue", func(ctx SpecContext) {
		t := newHall(ctx, 2).newTeam("a", 32)
		low, high := t.priority(100), t.priority(200)
		t.create(t.graph("low", withPriority(low, workers(2))))
		t.ready("low")
		t.create(t.graph("high", withPriority(high, workers(1))))
		t.ready("high")
		t.says("low", reserved, metav1.ConditionFalse, "QuotaPending", "1 of 2 Workloads")
		t.settle()
		t.remove("high")
		t.ready("low")
	}, SpecTimeout(suite.Timeout()))

	It("ends when its queue is stopped, and returns when it is resumed", func(ctx SpecContext) {
		t := newHall(ctx, 2).newTeam("a", 32)
		t.create(t.graph("g", workers(2)))
		t.ready("g")
		queue := t.clusterQueue(gpuResource)
		t.answered(func() error { return api.Patch(ctx, queue, merge(`{"spec":{"stopPolicy":"HoldAndDrain"}}`)) })
		t.until("all quota is given back", func() error { return t.uses(0) })
		t.until("all pods are back, held", t.settled)
		t.answered(func() error { return api.Patch(ctx, queue, merge(`{"spec":{"stopPolicy":"None"}}`)) })
		t.ready("g")
	}, SpecTimeout(suite.Timeout()))

	It("survives that Kueue and the operator are killed", suite.Faults, func(ctx SpecContext) {
		t := newHall(ctx, 3).newTeam("a", 48)
		t.create(t.graph("g", workers(1)))
		t.ready("g")
		before := graphs.UIDs(t.pods())

		By("killing both")
		Expect(cluster.KillProgram(ctx, peers.KueueProgram)).To(Succeed())
		Expect(cluster.KillManager(ctx, "")).To(Succeed())
		t.startManager()
		t.scale("g", "Worker", 2)
		Expect(cluster.RestartProgram(ctx, peers.KueueProgram)).To(Succeed())
		t.ready("g")
		t.settle()
		t.stay(before)
	}, SpecTimeout(suite.Timeout()))
})

// startManager starts the operator again.
func (h *hall) startManager() {
	GinkgoHelper()
	Expect(cluster.StartManager(h.ctx, sandbox.ManagerOptions{})).To(Succeed())
}

// stay checks that these pods still exist.
func (t *team) stay(before map[types.UID]bool) {
	GinkgoHelper()
	now := graphs.UIDs(t.pods())
	for uid := range before {
		Expect(now).To(HaveKey(uid), "a pod is gone")
	}
}

// bound returns the GPUs of bound pods that are not terminating.
func bound(pods []corev1.Pod) (sum int64) {
	for i := range pods {
		if pods[i].Spec.NodeName != "" && pods[i].DeletionTimestamp == nil {
			sum += gpusOf(&pods[i].Spec)
		}
	}
	return sum
}
