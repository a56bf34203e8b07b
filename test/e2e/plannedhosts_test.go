// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

var _ = Describe("Planned hosts", func() {
	// The kube-scheduler prefers empty hosts. Left to it, the pods of half a host each would take all four hosts of the rack.
	It("are those that pods are bound to, so that other hosts stay whole", suite.Core, func(ctx SpecContext) {
		w := newWorld(ctx, "whole-hosts", racks(4, 8, "a/r0")...)
		w.create(w.graphOf("half", "", services{"Worker": worker(2, 2, 4, "rack")}))
		w.ready("half")
		var hosts []string
		for _, pod := range w.all() {
			hosts = append(hosts, pod.Spec.NodeName)
		}
		slices.Sort(hosts)
		Expect(slices.Compact(hosts)).To(HaveLen(2))
		w.create(w.graphOf("full", "", services{"Worker": worker(1, 2, 8, "rack")}))
		w.ready("full")
		w.boundAsPlanned()
	}, SpecTimeout(suite.Timeout()))

	// Graphs of several sizes are created at once and take more than the hall has.
	for i := range 4 {
		labels := suite.Core
		if i > 0 {
			labels = suite.Slow
		}
		It(fmt.Sprintf("are accepted by the kube-scheduler for all pods of a random hall (case %d)", i), labels, func(ctx SpecContext) {
			random := rand.New(rand.NewPCG(uint64(GinkgoRandomSeed()), uint64(i))) //nolint:gosec // a test that can be repeated
			var paths []string
			for rack := range 2 + random.IntN(3) {
				paths = append(paths, fmt.Sprintf("%c/r%d", 'a'+rune(rack%2), rack))
			}
			hosts := racks(2+random.IntN(3), 8, paths...)
			w := newWorld(ctx, fmt.Sprint("hall-", i), hosts...)
			names := w.createRandom(random, 8*len(hosts))
			for _, name := range names {
				w.settles(name)
			}
			w.boundAsPlanned()
			w.noEvent("FailedScheduling")
			w.noEvent(gang.CodeRequeued)
		}, SpecTimeout(suite.Timeout()))
	}

	// No scheduler binds the gang, so it stays released until its host is lost, also when its reservation has ended by then.
	It("are left when they are cordoned before the pods are bound", func(ctx SpecContext) {
		w := newWorld(ctx, "lost-host", racks(3, 8, "a/r0")...)
		nobody := worker(1, 2, 8, "rack")
		nobody.ExtraPodSpec.PodSpec = &corev1.PodSpec{SchedulerName: "nobody"}
		w.create(w.graphOf("g", "", services{"Worker": nobody}))
		w.until("both pods are released to hosts", func() error { return w.releasedTo(2, "") })
		lost := gang.PinnedHost(&w.all()[0])
		w.cordon(strings.TrimPrefix(lost, w.name+"-"))
		w.until("both pods are released to the other hosts", func() error { return w.releasedTo(2, lost) })
		w.hasEvent("DynamoGraphDeployment", "g", gang.CodeRequeued, "its node "+lost+" is cordoned")
	}, SpecTimeout(suite.Timeout()))

	// Pods of another owner are created while gangs are planned, and the kube-scheduler binds them to any host. They take hosts that gangs are
	// released to.
	It("are planned again when pods of another owner take them, until all gangs are bound", suite.Slow, func(ctx SpecContext) {
		w := newWorld(ctx, "stream", racks(8, 8, "a/r0", "a/r1", "b/r2", "b/r3")...)
		const graphs, others = 12, 60
		leaders := map[types.UID]bool{}
		watcher := w.follow()
		watcher.mu.Lock()
		watcher.also = func(pod *corev1.Pod) {
			if _, index, ok := render.ReplicaOf(pod); ok && index == 0 {
				leaders[pod.UID] = true
			}
		}
		watcher.mu.Unlock()
		for i := range others {
			if i%(others/graphs) == 0 {
				w.create(w.graphOf(fmt.Sprint("g", i/(others/graphs)), "", services{"Worker": worker(1, 2, 8, "rack")}))
			}
			w.create(w.bare(fmt.Sprint("other-", i), 1))
		}
		for i := range graphs {
			w.settles(fmt.Sprint("g", i))
		}
		w.boundAsPlanned()
		watcher.mu.Lock()
		defer watcher.mu.Unlock()
		AddReportEntry(fmt.Sprintf("%d gangs alongside %d pods of another owner: %d evictions", graphs, others, len(leaders)-graphs))
	}, SpecTimeout(suite.Timeout()))
})

// createRandom creates graphs until they ask for more GPUs than there are, and returns their names.
func (w *world) createRandom(random *rand.Rand, gpus int) (names []string) {
	w.t.Helper()
	for asked := 0; asked <= gpus; {
		replicas, nodes, each := int32(1+random.IntN(2)), int32(1+random.IntN(4)), 1<<random.IntN(4)
		name, pack := fmt.Sprint("g", len(names)), []string{"rack", "zone"}[random.IntN(2)]
		w.create(w.graphOf(name, "", services{"Worker": worker(replicas, nodes, each, pack)}))
		asked += int(replicas) * int(nodes) * each
		names = append(names, name)
	}
	return names
}

// settles waits until a graph is Ready, or waits for capacity with all that is released of it bound.
func (w *world) settles(name string) {
	w.t.Helper()
	w.until(name+" is Ready or waits for capacity", func() error {
		ready := w.isReady(name)
		if ready == nil {
			return nil
		}
		dgd := w.dgd(name)
		waits := meta.FindStatusCondition(dgd.Status.Conditions, nvidiav1alpha1.ConditionPlaced)
		if waits == nil || waits.Status != metav1.ConditionFalse || !slices.Contains([]string{"InsufficientCapacity", "NeverFits"}, waits.Reason) {
			return ready
		}
		for _, pod := range w.all() {
			if strings.HasPrefix(pod.Name, name+"-") && !render.GateClosed(&pod) && pod.Spec.NodeName == "" {
				return fmt.Errorf("pod %s is released and not bound", pod.Name)
			}
		}
		return nil
	})
}

// boundAsPlanned checks that the pods which are bound are where they were planned.
func (w *world) boundAsPlanned() {
	w.t.Helper()
	bound := 0
	for _, pod := range w.all() {
		if pod.Spec.NodeName == "" {
			continue
		}
		bound++
		if host := gang.PinnedHost(&pod); host != pod.Spec.NodeName {
			w.t.Errorf("pod %s was planned on %q and is bound to %s", pod.Name, host, pod.Spec.NodeName)
		}
	}
	if bound == 0 {
		w.t.Error("no pod is bound")
	}
}

// releasedTo reports whether so many pods are pinned to hosts, none of them to the one that is lost.
func (w *world) releasedTo(count int, lost string) error {
	pods := slices.DeleteFunc(w.all(), func(pod corev1.Pod) bool { return pod.DeletionTimestamp != nil })
	if len(pods) != count {
		return fmt.Errorf("there are %d pods", len(pods))
	}
	for i := range pods {
		if host := gang.PinnedHost(&pods[i]); host == "" || host == lost {
			return fmt.Errorf("pod %s is pinned to %q", pods[i].Name, host)
		}
	}
	return nil
}

// bare is a pod of another owner's for any host of the world.
func (w *world) bare(name string, gpus int) client.Object {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: name},
		Spec: corev1.PodSpec{
			NodeSelector:                  map[string]string{poolKey: w.name},
			TerminationGracePeriodSeconds: new(int64),
			Containers:                    []corev1.Container{{Name: "main", Image: "example.com/other:1", Resources: corev1.ResourceRequirements{Limits: gpuList(gpus)}}},
		},
	}
}
