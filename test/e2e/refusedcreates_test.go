// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/hack/sandbox"
	"github.com/trellis-k8s/trellis/internal/operator"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/test/testutil/crash"
	"github.com/trellis-k8s/trellis/test/testutil/graphs"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

// replica is the pods of one replica.
type replica []*corev1.Pod

func gangOf(pod *corev1.Pod) string {
	return pod.Labels[render.LabelScalingGroup] + "-" + pod.Labels[render.LabelReplica]
}

func gangsOf(pods []*corev1.Pod) map[string]replica {
	out := map[string]replica{}
	for _, pod := range pods {
		out[gangOf(pod)] = append(out[gangOf(pod)], pod)
	}
	return out
}

// ofGang returns the pods of a gang that do not terminate.
func (w *world) ofGang(name string) []corev1.Pod {
	w.t.Helper()
	return slices.DeleteFunc(w.all(), func(pod corev1.Pod) bool { return gangOf(&pod) != name })
}

// inPart reports whether pods of the replica are missing, and none of it is bound.
func (r replica) inPart() bool {
	size, _ := strconv.Atoi(r[0].Labels[render.LabelReplicaSize])
	return len(r) < size && !slices.ContainsFunc(r, func(pod *corev1.Pod) bool { return pod.Spec.NodeName != "" || pod.DeletionTimestamp != nil })
}

// hasWhole waits until so many replicas of two pods run, those of the names among them, and the namespace has no other pod.
func (w *world) hasWhole(replicas int, names ...string) {
	w.t.Helper()
	w.until(fmt.Sprintf("%d replicas are whole, and nothing else is there", replicas), func() error {
		var pods []*corev1.Pod
		for _, pod := range list(w, &corev1.PodList{}).Items {
			if !slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
				return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
			}) || pod.Spec.NodeName == "" || pod.DeletionTimestamp != nil {
				return fmt.Errorf("pod %s does not serve", pod.Name)
			}
			pods = append(pods, &pod)
		}
		gangs := gangsOf(pods)
		for _, name := range names {
			if gangs[name] == nil {
				return fmt.Errorf("%s is not there", name)
			}
		}
		for name, of := range gangs {
			if len(of) != 2 {
				return fmt.Errorf("%s has %d pods", name, len(of))
			}
		}
		if len(gangs) != replicas {
			return fmt.Errorf("%d replicas are there: %v", len(gangs), slices.Sorted(maps.Keys(gangs)))
		}
		return nil
	})
}

// isLookedAt waits until the operator has looked at a change of a component.
func (w *world) isLookedAt(group string) {
	w.t.Helper()
	w.until("the operator has looked at "+group, func() error {
		sg := get(w, &trellisv1alpha1.ScalingGroup{}, w.name, group)
		owner := w.dgd(sg.Spec.Graph)
		if sg.Status.ObservedGeneration != sg.Generation || owner.Status.ObservedGeneration != owner.Generation {
			return fmt.Errorf("it has seen generation %d of %d, and %d of %d of its deployment", sg.Status.ObservedGeneration, sg.Generation,
				owner.Status.ObservedGeneration, owner.Generation)
		}
		return nil
	})
}

// isDenied waits until a deployment says that the webhook that counts refuses its pods.
func (w *world) isDenied(name string) {
	w.t.Helper()
	w.hasCondition(name, placed, metav1.ConditionFalse, nvidiav1alpha1.ReasonCreationRefused, webhookOfPods, "pods of at most")
}

// ways to create gangs: whether all pods are gated.
var ways = map[string]bool{"in-place": false, "gated": true}

// newOperated is a world with an operator of its own, which creates gangs in one of these ways.
func newOperated(ctx context.Context, name, way string, hosts ...host) *world {
	GinkgoHelper()
	w := bare[sandbox.Gates].open(ctx).newWorld(ctx, name+"-"+way, hosts...)
	_, stop := operate(w.config(), w.name, &crash.Saboteur{Name: w.name, Ledger: &crash.Ledger{}}, func(o *operator.Options) {
		o.GateAllPods, o.RequeueAfter = ways[way], requeueAfter
	})
	DeferCleanup(stop)
	return w
}

func eachWay() (out []TableEntry) {
	for _, way := range slices.Sorted(maps.Keys(ways)) {
		out = append(out, Entry(way, SpecTimeout(2*suite.Timeout()), way))
	}
	return out
}

var _ = Describe("In a namespace whose pods a webhook counts,", func() {
	sixRacks := racks(2, 8, "a/r0", "a/r1", "a/r2", "a/r3", "a/r4", "a/r5")

	DescribeTable("the replicas of a component are whole or not there", func(ctx SpecContext, way string) {
		w := newOperated(ctx, "counted-component", way, sixRacks...)
		pods := w.countPods(4)
		w.create(w.graphOf("g", "", services{"Worker": worker(3, 2, 8, "rack")}))
		w.hasWhole(2)
		w.isDenied("g")
		before := w.uids()
		pods.refusesAgain()
		w.hasWhole(2)
		Expect(w.uids()).To(haveAllOf(before))

		By("the webhook allows more: the third replica comes by itself")
		pods.allow(6)
		w.ready("g")
		Expect(w.uids()).To(And(HaveLen(6), haveAllOf(before)))
		pods.oneByOne()
	}, eachWay())

	DescribeTable("a gang is completed before that of another deployment begins", func(ctx SpecContext, way string) {
		w := newOperated(ctx, "counted-deployments", way, sixRacks...)
		pods := w.countPods(0)
		for _, name := range []string{"g1", "g2"} {
			w.create(w.graphOf(name, "", services{"Worker": worker(2, 2, 8, "rack")}))
			w.isDenied(name)
		}
		pods.allow(5)
		w.hasWhole(2)
		pods.refusesAgain()
		w.hasWhole(2)
		pods.oneByOne()
		pods.allow(8)
		w.ready("g1")
		w.ready("g2")
		pods.oneByOne()
	}, eachWay())

	DescribeTable("a replica that served is completed again before any other is created", func(ctx SpecContext, way string) {
		w := newOperated(ctx, "counted-service", way, sixRacks...)
		pods := w.countPods(3)
		w.create(w.graphOf("g", "", services{"Worker": worker(1, 2, 8, "rack")}))
		w.ready("g")
		w.create(w.graphOf("other", "", services{"Worker": worker(1, 2, 8, "rack")}))
		w.isDenied("other")
		w.scale("g", "Worker", 2)
		w.isDenied("g")
		w.hasWhole(1, "g-worker-0")

		By("a pod of the replica is lost, and the other one takes long to terminate")
		pods.allow(2) // a gang that is being created just now is not completed by what becomes free
		before := w.uids()
		first := get(w, &corev1.Pod{}, w.name, "g-worker-0-0")
		w.staying(first)
		w.deletePod("g-worker-0-1")
		w.until("the replica ends", func() error {
			if pods := w.all(); len(pods) > 0 {
				return fmt.Errorf("%d pods do not terminate", len(pods))
			}
			return nil
		})
		pods.allow(3) // the other gang fits while the replica ends
		w.scale("g", "Worker", 3)
		w.scale("other", "Worker", 2)
		w.isLookedAt("g-worker")
		w.isLookedAt("other-worker")
		Expect(w.all()).To(BeEmpty(), "pods that were created although a replica is to be completed first")
		w.leaves(first)
		w.hasWhole(1, "g-worker-0")
		Expect(graphs.AllNew(before, w.ofGang("g-worker-0"), 2)).To(Succeed())
		pods.refusesAgain()
		w.hasWhole(1, "g-worker-0")
		w.isDenied("g")
		w.isDenied("other")

		By("the webhook allows more: all are created")
		pods.allow(10)
		w.ready("g")
		w.ready("other")
		pods.oneByOne()
	}, eachWay())
})

// limited is a LimitRange and a component that it refuses.
type limited struct {
	limits corev1.LimitRangeItem
	// small and large are the resources of the pods of two components.
	small, large nvidiav1alpha1.ResourceItem
	// says is why the API server refuses the large ones.
	says string
	// correct ends the refusal.
	correct func(w *world, limits *corev1.LimitRange)
}

func amounts(name corev1.ResourceName, amount string) corev1.ResourceList {
	return corev1.ResourceList{name: resource.MustParse(amount)}
}

var limitations = map[string]limited{
	"the memory of a container, until it is deleted": {
		limits: corev1.LimitRangeItem{Type: corev1.LimitTypeContainer, Max: amounts(corev1.ResourceMemory, "64Gi")},
		large:  nvidiav1alpha1.ResourceItem{Memory: "128Gi"},
		says:   "maximum memory usage per Container is 64Gi, but limit is 128Gi",
		correct: func(w *world, limits *corev1.LimitRange) {
			w.remove(limits)
		},
	},
	"the CPUs of a pod, until the deployment is corrected": {
		limits: corev1.LimitRangeItem{Type: corev1.LimitTypePod, Max: amounts(corev1.ResourceCPU, "8")},
		small:  nvidiav1alpha1.ResourceItem{CPU: "4"}, large: nvidiav1alpha1.ResourceItem{CPU: "16"},
		says: "maximum cpu usage per Pod is 8, but limit is 16",
		correct: func(w *world, _ *corev1.LimitRange) {
			w.patch("g", `{"spec":{"services":{"Large":{"resources":{"limits":{"cpu":"8"}}}}}}`)
		},
	},
}

var _ = Describe("A base gang of which a LimitRange refuses a component", func() {
	DescribeTable("has no pods, names the LimitRange, and is created when nothing refuses it", func(ctx SpecContext, way, of string) {
		c := limitations[of]
		w := newOperated(ctx, "limited-"+strings.ToLower(string(c.limits.Type)), way, racks(2, 8, "a/r0", "a/r1")...)
		limits := &corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "sizes"}, Spec: corev1.LimitRangeSpec{
			Limits: []corev1.LimitRangeItem{c.limits},
		}}
		w.create(limits)
		w.refusesTrial(corev1.ResourceRequirements{Limits: corev1.ResourceList{
			corev1.ResourceMemory: resource.MustParse("1Ti"), corev1.ResourceCPU: resource.MustParse("100"),
		}}, "maximum")
		all := services{"Small": worker(1, 1, 8, "rack"), "Large": worker(1, 2, 8, "rack")}
		for name, one := range map[string]nvidiav1alpha1.ResourceItem{"Small": c.small, "Large": c.large} {
			one.GPU = all[name].Resources.Limits.GPU
			all[name].Resources.Limits = &one
		}
		watcher := w.follow()
		var bound []string
		watcher.mu.Lock()
		watcher.also = func(pod *corev1.Pod) {
			if pod.Spec.NodeName != "" {
				bound = append(bound, pod.Name)
			}
		}
		watcher.mu.Unlock()
		w.create(w.graphOf("g", "zone", all))
		w.hasCondition("g", placed, metav1.ConditionFalse, nvidiav1alpha1.ReasonCreationRefused, c.says, "LimitRange sizes")
		w.until("no pod is left", func() error {
			if pods := list(w, &corev1.PodList{}).Items; len(pods) > 0 {
				return fmt.Errorf("pod %s is there", pods[0].Name)
			}
			return nil
		})
		watcher.mu.Lock()
		Expect(bound).To(BeEmpty(), "pods that were bound")
		watcher.mu.Unlock()
		c.correct(w, limits)
		w.ready("g")
		watcher.stop()
	}, limitedInEachWay())
})

func limitedInEachWay() (out []TableEntry) {
	for _, of := range slices.Sorted(maps.Keys(limitations)) {
		for _, way := range slices.Sorted(maps.Keys(ways)) {
			out = append(out, Entry(of+", "+way, SpecTimeout(suite.Timeout()), way, of))
		}
	}
	return out
}
