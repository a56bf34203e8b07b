// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/constraint"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/scheduler"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

func (w *world) priorityClass(value int32) string {
	w.t.Helper()
	name := fmt.Sprintf("%s-%d", w.name, value)
	class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value}
	w.create(class)
	w.t.Cleanup(func() { _ = w.c.Delete(context.WithoutCancel(w.t.Context()), class) })
	return name
}

var _ = Describe("A gang of a higher priority", func() {
	// Two racks are full: one with a gang of two hosts, one with two graphs of one host each. A more important gang gets the rack where it breaks
	// one gang, whole; the kube-scheduler preempts there. The gang that had to go returns whole once there is capacity, in the same rack
	// only if that is where the capacity is.
	DescribeTable("preempts one gang whole, which comes back whole", func(ctx SpecContext, on *sharedSandbox) {
		priorityMakesRoom(on.open(ctx).newWorld(ctx, "priority", racks(2, 8, "a/r0", "a/r1")...))
	},
		Entry("under Gates", SpecTimeout(suite.Timeout()), shared),
		Entry("under PodGroup", SpecTimeout(suite.Timeout()), podGroups),
	)
})

func priorityMakesRoom(w *world) {
	GinkgoHelper()
	high := w.priorityClass(1000)
	w.create(w.graphOf("one", "", services{"Worker": worker(1, 1, 8, "rack")}))
	w.ready("one")
	w.create(w.graphOf("two", "", services{"Worker": worker(1, 1, 8, "rack")}))
	w.ready("two")
	w.create(w.graphOf("pair", "", services{"Worker": worker(1, 2, 8, "rack")}))
	w.ready("pair")
	pair := w.domains("rack", podsOf(w, "pair")...)

	w.create(w.graphOf("equal", "", services{"Worker": worker(1, 2, 8, "rack")}))
	w.hasCondition("equal", nvidiav1alpha1.ConditionPlaced, metav1.ConditionFalse, "InsufficientCapacity", "holds 0 of 2")

	urgent := w.graphOf("urgent", "", services{"Worker": worker(1, 2, 8, "rack")})
	urgent.Spec.PriorityClassName = high
	w.create(urgent)
	w.ready("urgent")
	Expect(podsOf(w, "urgent")).To(w.bePlacedIn("rack", pair...), "there it breaks only one other gang")
	w.hasEventOf(corev1.EventTypeNormal, "DynamoGraphDeployment", "urgent", scheduler.EventPreempting, "2 of "+w.name+"/pair-worker-0")
	w.hasCondition("pair", nvidiav1alpha1.ConditionPlaced, metav1.ConditionFalse, "InsufficientCapacity", "of 2", "preempted by "+w.name+"/urgent")
	why, _ := w.kubectlTrellis(0, "explain", "dgd/pair", "-o", "wide")
	w.says(why, "ago by "+w.name+"/urgent (priority 1000)")
	Expect(why).NotTo(MatchRegexp(`kubectl (delete|patch) dgd -n \S+ urgent`), "who has preempted it is not to be freed")
	for _, name := range []string{"one", "two"} {
		w.ready(name)
	}
	Expect(released(podsOf(w, "pair"))).To(BeEmpty(), "the preempted gang comes back whole or not at all")
	for _, name := range []string{"equal", "urgent"} {
		w.delete(name)
	}
	w.ready("pair")
	Expect(podsOf(w, "pair")).To(w.bePlacedIn("rack", pair...), "where it had been")
}

func podsOf(w *world, graph string) []corev1.Pod {
	return slices.DeleteFunc(w.all(), func(p corev1.Pod) bool {
		return p.Labels["nvidia.com/dynamo-graph-deployment-name"] != graph || p.DeletionTimestamp != nil
	})
}

func released(pods []corev1.Pod) []corev1.Pod {
	return slices.DeleteFunc(pods, func(p corev1.Pod) bool { return len(p.Spec.SchedulingGates) > 0 })
}

var _ = Describe("Many graphs at once", func() {
	// Many graphs, 50 or TRELLIS_CROWD, arrive at once on a cluster that is 85 % full. A gang that is placed is placed whole, one that is not
	// explains why, and no capacity for a whole gang is left over.
	It("are placed whole or not at all on a cluster that is nearly full, and no capacity is left over", suite.Faults, func(ctx SpecContext) {
		const racksOf, hosts, free = 40, 4, 24
		graphs := int(fromEnv("TRELLIS_CROWD", 50))
		var paths []string
		for i := range racksOf {
			paths = append(paths, fmt.Sprintf("z%d/r%d", i%4, i/4))
		}
		w := newWorld(ctx, "crowd", racks(hosts, 8, paths...)...)
		random := rand.New(rand.NewPCG(1, 2))
		var nodes []string
		for _, path := range racks(hosts, 8, paths...) {
			nodes = append(nodes, path.name)
		}
		random.Shuffle(len(nodes), func(i, j int) { nodes[i], nodes[j] = nodes[j], nodes[i] })
		for i, node := range nodes[:len(nodes)-free] {
			w.occupy(fmt.Sprintf("busy-%d", i), node, 8)
		}
		for i := range graphs {
			w.create(w.graphOf(fmt.Sprintf("g%d", i), "", services{"Worker": worker(1, 2, 8, "rack")}))
		}
		var placed int
		w.until("every graph is placed or a reason", func() error {
			placed = 0
			for _, dgd := range list(w, &nvidiav1alpha1.DynamoGraphDeploymentList{}).Items {
				c := meta.FindStatusCondition(dgd.Status.Conditions, nvidiav1alpha1.ConditionPlaced)
				switch {
				case c == nil || c.Reason == gang.CodeCreating:
					return fmt.Errorf("%s is not decided", dgd.Name)
				case c.Status == metav1.ConditionTrue && dgd.Status.State != nvidiav1alpha1.StateSuccessful:
					return fmt.Errorf("%s is placed and is %s", dgd.Name, dgd.Status.State)
				case c.Status == metav1.ConditionTrue:
					placed++
				}
			}
			return nil
		})
		perRack := map[string]int{}
		bound := map[string][]corev1.Pod{}
		for _, pod := range w.all() {
			if pod.Spec.NodeName != "" && pod.Labels["nvidia.com/dynamo-graph-deployment-name"] != "" {
				bound[pod.Labels["nvidia.com/dynamo-graph-deployment-name"]] = append(bound[pod.Labels["nvidia.com/dynamo-graph-deployment-name"]], pod)
			}
		}
		for graph, pods := range bound {
			Expect(pods).To(And(HaveLen(2), w.bePlacedInOne("rack")), "the pods of %s", graph)
			for i := range pods {
				Expect(namedHosts(pods[i:i+1])).To(ConsistOf(pods[i].Spec.NodeName), "%s is pinned to its planned host by name", pods[i].Name)
			}
		}
		for _, node := range nodes[len(nodes)-free:] {
			perRack[node[:len(node)-2]]++
		}
		want := 0
		for _, n := range perRack {
			want += n / 2
		}
		Expect(placed).To(Equal(want), "the graphs that are placed")
		Expect(bound).To(HaveLen(want), "the graphs that are bound")
	}, SpecTimeout(suite.Timeout()))
})

var _ = Describe("A constraint in KAI's annotations", func() {
	// A constraint stated in KAI's annotations means the same as one in the spec, and is taken over once.
	It("means the same as one in the spec", func(ctx SpecContext) {
		w := newWorld(ctx, "annotated", racks(2, 8, "a/r0", "b/r0", "b/r1")...)
		dgd := w.graphOf("g", "", services{"Worker": worker(2, 2, 8, ""), "Frontend": frontend(1)})
		dgd.Spec.TopologyConstraint = nil
		dgd.Annotations = map[string]string{
			constraint.AnnotationTopology: w.name, constraint.AnnotationRequired: zoneKey, constraint.AnnotationPreferred: rackKey,
		}
		w.create(dgd)
		w.ready("g")
		Expect(w.all()).To(w.bePlacedIn("zone", "b"), "only zone b holds it")
		w.hasCondition("g", nvidiav1alpha1.ConditionTopologyLevelsAvailable, metav1.ConditionTrue, "AllTopologyLevelsAvailable")
		changed := w.dgd("g").DeepCopy()
		changed.Annotations[constraint.AnnotationRequired] = rackKey
		Expect(w.c.Patch(ctx, changed, client.MergeFrom(w.dgd("g")))).NotTo(Succeed(), "the annotation is changed")
	}, SpecTimeout(suite.Timeout()))
})

var _ = Describe("The default topology", func() {
	// Multinode components of graphs without any constraint are packed by the default topology as closely as possible, and it never keeps them from
	// being placed.
	It("packs multinode services without a constraint as closely as it goes, and keeps none from being placed", func(ctx SpecContext) {
		e := newEnvironment(of(ctx), "default")
		w := e.newWorld(ctx, "default-topology", racks(2, 8, "a/r0", "a/r1")...)
		ct := get(w, &grovev1alpha1.ClusterTopology{}, "", w.name)
		older := ct.DeepCopy()
		metav1.SetMetaDataAnnotation(&ct.ObjectMeta, constraint.AnnotationDefault, "true")
		Expect(w.c.Patch(ctx, ct, client.MergeFrom(older))).To(Succeed())
		w.until("the topology says that it is the default", func() error {
			ct := get(w, &grovev1alpha1.ClusterTopology{}, "", w.name)
			if !meta.IsStatusConditionTrue(ct.Status.Conditions, grovev1alpha1.ConditionDefault) {
				return fmt.Errorf("conditions %v", ct.Status.Conditions)
			}
			return nil
		})
		unconstrained := func(name string, s services) *nvidiav1alpha1.DynamoGraphDeployment {
			dgd := w.graphOf(name, "", s)
			dgd.Spec.TopologyConstraint = nil
			return dgd
		}
		w.occupy("busy", "a-r0-0", 8)
		w.create(unconstrained("g", services{"Worker": worker(1, 2, 8, ""), "Frontend": frontend(1)}))
		w.ready("g")
		Expect(w.replicasOf("Worker")[0]).To(w.bePlacedIn("rack", "a/r1"), "rack a/r1 holds all of it")
		for _, pods := range w.replicasOf("Frontend") {
			Expect(pods[0].Spec.NodeSelector).To(BeEmpty(), "the frontend is not pinned")
		}
		w.addHosts(host{zone: "b", rack: "r0", name: "b-r0-0", gpus: 8})
		w.create(unconstrained("spread", services{"Worker": worker(1, 2, 8, "")}))
		w.ready("spread") // one host left in a/r0 and one in b/r0: no domain holds both, so any two will do
	}, SpecTimeout(suite.Timeout()))

	// Each of two pools of nodes has a topology of its own.
	It("is that of the nodes that the pods of a component can use", func(ctx SpecContext) {
		e := newEnvironment(of(ctx), "default-pools")
		w, other := e.newWorld(ctx, "pool-one", racks(2, 8, "a/r0", "a/r1")...), e.newWorld(ctx, "pool-two", racks(2, 8, "b/r0", "b/r1")...)
		for _, name := range []string{w.name, other.name} {
			ct := get(w, &grovev1alpha1.ClusterTopology{}, "", name)
			older := ct.DeepCopy()
			metav1.SetMetaDataAnnotation(&ct.ObjectMeta, constraint.AnnotationDefault, "true")
			Expect(w.c.Patch(ctx, ct, client.MergeFrom(older))).To(Succeed())
		}
		w.until("both topologies count", func() error {
			for _, name := range []string{w.name, other.name} {
				ct := get(w, &grovev1alpha1.ClusterTopology{}, "", name)
				c := meta.FindStatusCondition(ct.Status.Conditions, grovev1alpha1.ConditionDefault)
				if c == nil || c.Reason != grovev1alpha1.ReasonDefault || !strings.Contains(c.Message, "other defaults") {
					return fmt.Errorf("conditions of %s: %v", name, ct.Status.Conditions)
				}
			}
			return nil
		})
		in := func(pool string) *nvidiav1alpha1.ServiceSpec {
			return withPodSpec(worker(1, 2, 8, ""), corev1.PodSpec{NodeSelector: map[string]string{poolKey: pool}})
		}
		dgd := w.graphOf("g", "", services{"Decode": in(w.name), "Prefill": in(other.name), "Either": worker(1, 2, 8, "")})
		dgd.Spec.TopologyConstraint = nil
		w.create(dgd)
		w.hasEventOf(corev1.EventTypeNormal, "DynamoGraphDeployment", "g", "DefaultTopologyUndecided", `"Either" follows no default topology`)
		w.ready("g")
		Expect(w.replicasOf("Decode")[0]).To(w.bePlacedInOne("rack"))
		Expect(w.replicasOf("Prefill")[0]).To(w.bePlacedInOne("rack"))
		topologyOf := func(service string) *trellisv1alpha1.ResolvedTopology {
			return get(w, &trellisv1alpha1.ScalingGroup{}, w.name, "g-"+strings.ToLower(service)).Spec.Topology
		}
		Expect(topologyOf("Decode")).To(HaveField("ClusterTopology", w.name))
		Expect(topologyOf("Prefill")).To(HaveField("ClusterTopology", other.name))
		Expect(topologyOf("Either")).To(BeNil())
	}, SpecTimeout(suite.Timeout()))
})
