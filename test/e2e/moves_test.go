// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/hack/sandbox"
	"github.com/trellis-k8s/trellis/internal/leaving"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/rollout"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

// followMoves notes every pod there ever is, and fails when a component serves fewer than floor replicas, or has more than ceiling.
func (w *world) followMoves(floor, ceiling int, components ...string) (*observer, map[types.UID]bool) {
	w.t.Helper()
	o, seen := w.newObserver(), map[types.UID]bool{}
	o.also = func(pod *corev1.Pod) { seen[pod.UID] = true }
	o.start(w.c)
	o.bound(floor, ceiling, components...)
	return o, seen
}

// bound sets the limits of several components after the observer has seen all existing pods.
func (o *observer) bound(floor, ceiling int, components ...string) {
	o.w.t.Helper()
	o.w.until("the pods are seen", func() error {
		o.mu.Lock()
		defer o.mu.Unlock()
		if len(o.pods) < len(o.w.all()) {
			return fmt.Errorf("%d pods", len(o.pods))
		}
		return nil
	})
	for _, component := range components {
		o.expect(component, floor, ceiling)
	}
}

// drained is a world of 48 hosts in 12 racks, and three graphs of 4 replicas, two of which fill a rack.
type drained struct {
	*world
	graphs, components []string
	// hosts to drain, in the order of their racks.
	hosts []string
	// moves are the replicas on these hosts.
	moves map[string]bool
}

// newDrained brings the graphs up. change edits each before it is created.
func newDrained(ctx context.Context, name string, change func(*nvidiav1alpha1.DynamoGraphDeployment)) *drained {
	GinkgoHelper()
	var paths []string
	for rack := range 12 {
		paths = append(paths, fmt.Sprintf("a/r%d", rack))
	}
	d := &drained{world: newWorld(ctx, name, racks(4, 8, paths...)...), components: []string{"Alpha", "Beta", "Gamma"}, moves: map[string]bool{}}
	for i, component := range d.components {
		d.graphs = append(d.graphs, fmt.Sprintf("g%d", i))
		graph := d.graphOf(d.graphs[i], "zone", services{component: worker(4, 2, 8, "rack")})
		change(graph)
		d.create(graph)
	}
	d.allReady()
	for _, path := range paths { // the first four racks with pods
		var rack []string
		used := false
		for host := range 4 {
			name := d.node(fmt.Sprintf("a-%s-%d", path[2:], host))
			rack = append(rack, name)
			used = used || slices.ContainsFunc(d.all(), func(pod corev1.Pod) bool { return pod.Spec.NodeName == name })
		}
		if used && len(d.hosts) < 16 {
			d.hosts = append(d.hosts, rack...)
		}
	}
	Expect(d.hosts).To(HaveLen(16))
	for _, pod := range d.all() {
		if slices.Contains(d.hosts, pod.Spec.NodeName) {
			d.moves[pod.Labels[render.LabelGraph]+"/"+pod.Labels[render.LabelReplica]] = true
		}
	}
	return d
}

func (d *drained) allReady() {
	d.t.Helper()
	for _, name := range d.graphs {
		d.ready(name)
	}
}

// drain drains the hosts in four batches. cordon: all of them are cordoned first.
func (d *drained) drain(cordon bool) {
	d.t.Helper()
	if cordon {
		d.mustKubectl(append([]string{"cordon"}, d.hosts...)...)
	}
	for batch := range slices.Chunk(d.hosts, 4) {
		d.mustKubectl(append([]string{"drain", "--delete-emptydir-data", "--timeout=" + suite.Patience().String(),
			"--pod-selector=" + render.LabelComponent}, batch...)...)
	}
	d.allReady()
}

// figures of a drain. Restarts are of replicas.
type figures struct {
	restarts, moves, least int
	took                   time.Duration
}

// String returns what docs/moves.md has.
func (f figures) String() string {
	return fmt.Sprintf("%d replicas on the hosts, %d restarts, at least %d of 4 served, %s", f.moves, f.restarts, f.least, f.took.Round(time.Second))
}

// measured drains the hosts, and follows the pods meanwhile.
func (d *drained) measured(cordon bool, floor int) figures {
	d.t.Helper()
	o, seen := d.followMoves(floor, 5, d.components...)
	least := map[string]int{}
	o.mu.Lock()
	also := o.also
	o.also = func(pod *corev1.Pod) {
		also(pod)
		group := pod.Labels[render.LabelScalingGroup]
		if n := o.serving(pod); least[group] == 0 || n+1 < least[group] {
			least[group] = n + 1 // 0: not known
		}
	}
	o.mu.Unlock()
	before, since := len(d.all()), time.Now()
	d.drain(cordon)
	took := time.Since(since)
	o.stop()
	f := figures{restarts: (len(seen) - before) / 2, moves: len(d.moves), least: 4, took: took}
	for _, n := range least {
		f.least = min(f.least, n-1)
	}
	return f
}

var _ = Describe("A drain of hosts", func() {
	// 16 of 48 hosts, in four batches, by the real kubectl. The figures of the report are in docs/moves.md.
	for name, cordon := range map[string]bool{"all-cordoned-first": true, "batch-by-batch": false} {
		It("by kubectl restarts each replica on them once, on other hosts, and every component serves all its replicas: "+name, func(ctx SpecContext) {
			d := newDrained(ctx, "moves-"+name, func(*nvidiav1alpha1.DynamoGraphDeployment) {})
			f := d.measured(cordon, 4)
			AddReportEntry("moves, "+name, f.String())
			if cordon {
				Expect(f.restarts).To(Equal(f.moves), "each replica on the hosts restarts once")
			}
			for _, pod := range d.all() {
				Expect(d.hosts).NotTo(ContainElement(pod.Spec.NodeName), "pod %s is on a host that is drained", pod.Name)
			}
		}, SpecTimeout(2*suite.Timeout()))

		It("by kubectl ends with a disruption budget alone, in which time fewer replicas serve: "+name, func(ctx SpecContext) {
			d := newDrained(ctx, "budget-"+name, func(g *nvidiav1alpha1.DynamoGraphDeployment) {
				g.Annotations = map[string]string{rollout.AnnotationMoves: string(trellisv1alpha1.MovesNever)}
			})
			for i, component := range d.components {
				d.create(&policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: d.name, Name: d.graphs[i]}, Spec: policyv1.PodDisruptionBudgetSpec{
					MaxUnavailable: ptr.To(intstr.FromInt32(2)), // the pods of one replica
					Selector:       &metav1.LabelSelector{MatchLabels: map[string]string{render.LabelGraph: d.graphs[i], render.LabelComponent: component}},
				}})
			}
			d.budgetsAreCounted()
			f := d.measured(cordon, 0)
			AddReportEntry("a budget alone, "+name, f.String())
			Expect(f.least).To(BeNumerically("<", 4), "a budget alone does as well as moves")
		}, SpecTimeout(2*suite.Timeout()))
	}

	It("by kubectl trellis moves the replicas, and takes its mark away", func(ctx SpecContext) {
		w := newWorld(ctx, "trellis-drain", racks(2, 8, "a/r0", "a/r1", "a/r2")...)
		w.create(w.graphOf("g", "zone", services{"Worker": worker(2, 2, 8, "rack")}))
		w.ready("g")
		pod := w.all()[0]
		listed, _ := w.kubectlTrellis(0, "drain", "--dry-run", pod.Spec.NodeName)
		w.says(listed, "Worker-"+pod.Labels[render.LabelReplica], "moves")
		Expect(get(w, &corev1.Node{}, "", pod.Spec.NodeName).Spec.Unschedulable).To(BeFalse(), "a dry run has cordoned the node")

		o, seen := w.followMoves(2, 3, "Worker")
		w.kubectlTrellis(0, "drain", pod.Spec.NodeName)
		w.ready("g")
		o.stop()
		node := get(w, &corev1.Node{}, "", pod.Spec.NodeName)
		Expect(node.Spec.Unschedulable).To(BeTrue())
		Expect(node.Annotations).NotTo(HaveKey(leaving.AnnotationDrain))
		Expect(seen).To(HaveLen(6), "one replica restarts once")
		for _, one := range w.all() {
			Expect(one.Spec.NodeName).NotTo(Equal(pod.Spec.NodeName))
		}
	}, SpecTimeout(suite.Timeout()))

	It("ends without a move when an autoscaler takes its taint away", func(ctx SpecContext) {
		w := newWorld(ctx, "taint-and-back", racks(2, 8, "a/r0", "a/r1")...)
		w.create(w.graphOf("g", "zone", services{"Worker": worker(2, 2, 8, "rack")}))
		w.ready("g")
		before := w.uids()
		leaves := w.all()[0]
		node := leaves.Spec.NodeName
		for range 3 { // an autoscaler repeats it
			w.mustKubectl("taint", "node", node, "ToBeDeletedByClusterAutoscaler=:NoSchedule")
			w.until("a successor waits", func() error {
				if n := len(w.all()); n != 6 {
					return fmt.Errorf("%d pods", n)
				}
				return nil
			})
			Expect(w.evict(&leaves)).To(And(MatchError(apierrors.IsTooManyRequests, "IsTooManyRequests"), MatchError(ContainSubstring("its successor"))))
			w.mustKubectl("taint", "node", node, "ToBeDeletedByClusterAutoscaler-")
			w.until("the successor is gone, and nothing else", func() error {
				if diff := fmt.Sprint(w.uids()); diff != fmt.Sprint(before) {
					return fmt.Errorf("there are %s", diff)
				}
				return nil
			})
			w.ready("g")
		}
		Expect(w.uids()).To(Equal(before))
	}, SpecTimeout(suite.Timeout()))

	It("of a full cluster waits, says why, and ends after --move-timeout; without the operator it goes as far as the budget allows", func(ctx SpecContext) {
		e := newEnvironment(of(ctx), "full", func(o *sandbox.Options) { o.Manager = sandbox.ManagerOptions{Args: []string{"--move-timeout=15s"}} })
		w := e.newWorld(ctx, "full", racks(2, 8, "a/r0", "a/r1", "a/r2")...)
		w.create(w.graphOf("g", "zone", services{"Worker": worker(3, 2, 8, "rack")}))
		w.ready("g")
		budget := render.BudgetName("g-worker")
		w.budgetsAreCounted()
		w.budgetSays(budget, 6, 4, 2)
		o, _ := w.followMoves(2, 4, "Worker")
		hosts := func(ordinal int32) (hosts []string) {
			for _, pod := range w.replicasOf("Worker")[ordinal] {
				hosts = append(hosts, pod.Spec.NodeName)
			}
			return hosts
		}
		drain := func(ordinal int32) (string, error) {
			return w.kubectl(append([]string{"drain", "--delete-emptydir-data", "--timeout=" + suite.Patience().String(),
				"--pod-selector=" + render.LabelComponent}, hosts(ordinal)...)...)
		}
		first := w.uids()
		ended := make(chan string, 1)
		go func() {
			defer GinkgoRecover()
			out, err := drain(0)
			if err != nil {
				out += err.Error()
			}
			ended <- out
		}()
		w.hasCondition("g", nvidiav1beta1.ConditionMoved, metav1.ConditionFalse, trellisv1alpha1.ReasonMoving, "moving Worker-0: its successor Worker-3 waits for a place")
		Expect(w.uids()).To(haveAllOf(first), "a replica went before its time was over")
		var said string
		Eventually(ctx, ended).WithTimeout(suite.Patience()).Should(Receive(&said))
		Expect(said).To(And(ContainSubstring("waits for a place"), ContainSubstring("drained"), Not(ContainSubstring("timed out"))))
		w.budgetSays(budget, 6, 4, 0) // the successor waits

		By("no other replica goes, because too few others serve")
		next := hosts(1)
		w.mustKubectl(append([]string{"cordon"}, next...)...)
		Expect(w.evict(&w.replicasOf("Worker")[1][0])).To(MatchError(apierrors.IsTooManyRequests, "IsTooManyRequests"))
		w.hasCondition("g", nvidiav1beta1.ConditionMoved, metav1.ConditionFalse, trellisv1alpha1.ReasonMoveWaits, "it goes when more than 2 replicas serve, and 2 do")
		w.mustKubectl(append([]string{"uncordon"}, next...)...)
		for _, node := range list(w, &corev1.NodeList{}).Items {
			if node.Labels[poolKey] == w.name {
				w.mustKubectl("uncordon", node.Name)
			}
		}
		w.ready("g")
		o.stop()

		By("without the operator, evictions pass as the budget allows, and nothing waits for it")
		w.budgetsAreCounted()
		w.until("the budget allows the pods of a replica", func() error {
			if b := get(w, &policyv1.PodDisruptionBudget{}, w.name, budget); b.Status.DisruptionsAllowed != 2 || b.Status.ObservedGeneration != b.Generation {
				return fmt.Errorf("its status is %+v", b.Status)
			}
			return nil
		})
		e.stopOperator(ctx)
		var ordinals []int32
		for ordinal := range w.replicasOf("Worker") {
			ordinals = append(ordinals, ordinal)
		}
		slices.Sort(ordinals)
		out, err := drain(ordinals[0])
		Expect(err).NotTo(HaveOccurred(), out)
		Expect(w.replicasOf("Worker")).NotTo(HaveKey(ordinals[0]))
		other := w.replicasOf("Worker")[ordinals[1]][0]
		refused := w.evict(&other)
		Expect(refused).To(MatchError(apierrors.IsTooManyRequests, "IsTooManyRequests"), "a pod of another replica")
		Expect(refused).To(MatchError(And(ContainSubstring("disruption budget"), Not(ContainSubstring("trellis.dev")))))
	}, SpecTimeout(2*suite.Timeout()))
})
