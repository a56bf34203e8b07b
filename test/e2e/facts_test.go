// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/render"
)

// facts are what nodes and pods show at one moment, and what is said of them.
type facts struct {
	hosts   map[string]host
	place   func(*corev1.Pod) (zone, rack string)
	nodes   map[string]*corev1.Node
	graphs  map[types.UID]*graphFacts
	graphOf map[types.UID]types.UID
	pods    []*corev1.Pod
	// taken GPUs by node.
	taken map[string]int
}

// graphFacts are the running pods of one graph.
type graphFacts struct {
	dgd    *nvidiav1beta1.DynamoGraphDeployment
	active []*corev1.Pod
	// leaving pods terminate.
	leaving, bound, ready, gated int
}

func (f *facts) add(pod *corev1.Pod) {
	f.pods = append(f.pods, pod)
	if pod.Spec.NodeName != "" {
		f.taken[pod.Spec.NodeName] += gpusOf(pod)
	}
	g := f.graphs[f.graphOf[pod.UID]]
	switch {
	case g == nil:
		return
	case pod.DeletionTimestamp != nil:
		g.leaving++
		return
	}
	g.active = append(g.active, pod)
	if pod.Spec.NodeName != "" {
		g.bound++
	}
	if serves(pod) {
		g.ready++
	}
	if render.GateClosed(pod) {
		g.gated++
	}
}

// wanted is how many pods the graph is to have.
func (g *graphFacts) wanted() (n int) {
	for i := range g.dgd.Spec.Components {
		c := &g.dgd.Spec.Components[i]
		size := 1
		if c.Multinode != nil {
			size = int(c.Multinode.NodeCount)
		}
		n += int(ptr.Deref(c.Replicas, 1)) * size
	}
	return n
}

// whole: every pod that is wanted is there and serves, and no other.
func (g *graphFacts) whole() bool {
	n := g.wanted()
	return len(g.active) == n && g.ready == n && g.leaving == 0
}

// says are the conditions that are not True, with their messages.
func (g *graphFacts) says() (said []string) {
	for _, c := range g.dgd.Status.Conditions {
		if c.Status != "True" {
			said = append(said, fmt.Sprintf("%s is %s: %s: %s", c.Type, c.Status, c.Reason, c.Message))
		}
	}
	return said
}

// waits: the graph says that it waits for capacity, and some of its pods do.
func (g *graphFacts) waits() bool {
	placed := meta.FindStatusCondition(g.dgd.Status.Conditions, nvidiav1beta1.ConditionPlaced)
	return placed != nil && placed.Status == "False" && g.gated > 0
}

// contradictions are what is said and is not so, each with the name of the object it is about, in alphabetical order.
func (f *facts) contradictions() []string {
	var found []string
	for _, g := range f.graphs {
		found = append(found, g.contradictions()...)
		if why := f.fitsAfterAll(g); why != "" {
			found = append(found, why)
		}
	}
	found = append(found, f.boundInPart()...)
	for _, pod := range f.pods {
		node := f.nodes[pod.Spec.NodeName]
		switch {
		case pod.Spec.NodeName != "" && node == nil:
			found = append(found, fmt.Sprintf("pod %s (%s) is on node %s, which is gone", pod.Name, pod.UID, pod.Spec.NodeName))
		case f.graphs[f.graphOf[pod.UID]] == nil && (node == nil || usable(node) || pod.DeletionTimestamp == nil): // a dead kubelet ends no pod
			found = append(found, fmt.Sprintf("pod %s (%s) is there, with %d GPUs on %q, and its graph is gone", pod.Name, pod.UID, gpusOf(pod), pod.Spec.NodeName))
		}
	}
	slices.Sort(found)
	return found
}

// boundInPart names the replicas of several pods of which some are bound, and the others are not or do not exist.
func (f *facts) boundInPart() (found []string) {
	type replica struct {
		group   types.UID
		ordinal int32
	}
	bound, some := map[replica]int{}, map[replica]*corev1.Pod{}
	for _, pod := range f.pods {
		if ordinal, _, ok := render.ReplicaOf(pod); ok && pod.DeletionTimestamp == nil && pod.Spec.NodeName != "" {
			r := replica{ownerOf(pod), ordinal}
			bound[r]++
			some[r] = pod
		}
	}
	for r, n := range bound {
		if size, _ := strconv.Atoi(some[r].Labels[render.LabelReplicaSize]); n < size {
			found = append(found, fmt.Sprintf("replica %d of scaling group %s (%s) is bound in part, %d pods of %d",
				r.ordinal, some[r].Labels[render.LabelScalingGroup], r.group, n, size))
		}
	}
	return found
}

func (g *graphFacts) contradictions() []string {
	var found []string
	says := func(kind string) bool { return meta.IsStatusConditionTrue(g.dgd.Status.Conditions, kind) }
	reported := g.dgd.Status.ObservedGeneration == g.dgd.Generation
	switch n := g.wanted(); {
	case !reported:
		found = append(found, fmt.Sprintf("graph %s: its status is of an older generation", g.dgd.Name))
	case says(nvidiav1beta1.ConditionReady) && (len(g.active) != n || g.ready != n):
		found = append(found, fmt.Sprintf("graph %s says that it is Ready, and not all of its pods are", g.dgd.Name))
	case !says(nvidiav1beta1.ConditionReady) && g.whole():
		found = append(found, fmt.Sprintf("graph %s says that it is not Ready, and all of its pods are", g.dgd.Name))
	}
	if says(nvidiav1beta1.ConditionPlaced) && g.gated > 0 {
		found = append(found, fmt.Sprintf("graph %s says that it is Placed, and some of its pods are gated", g.dgd.Name))
	}
	return found
}

// fitsAfterAll names a rack with enough hosts for a gang that waits for capacity; "" for none, and while released pods of others are not bound
// there yet.
func (f *facts) fitsAfterAll(g *graphFacts) string {
	if !g.waits() {
		return ""
	}
	gang := slices.IndexFunc(g.active, func(pod *corev1.Pod) bool { return render.GateClosed(pod) && gpusOf(pod) > 0 })
	if gang < 0 {
		return ""
	}
	pod := g.active[gang]
	size, _ := strconv.Atoi(pod.Labels[render.LabelReplicaSize])
	if size < 2 {
		return "" // all replicas share one rack, and may have chosen
	}
	in := ""
	for _, member := range g.active {
		if zone, _ := f.place(member); zone != "" {
			in = zone
		}
	}
	for rack, n := range f.holds(gpusOf(pod)) {
		if n >= size && (in == "" || rack.zone == in) {
			return fmt.Sprintf("graph %s (in zone %q) waits for %d pods with %d GPUs, and a rack has hosts for them", g.dgd.Name, in, size, gpusOf(pod))
		}
	}
	return ""
}

type rackName struct{ zone, rack string }

// holds counts how many more pods of so many GPUs each rack holds now.
func (f *facts) holds(gpus int) map[rackName]int {
	n := map[rackName]int{}
	for name, h := range f.hosts {
		if node := f.nodes[name]; node != nil && usable(node) {
			n[rackName{h.zone, h.rack}] += (h.gpus - f.taken[name]) / gpus
		}
	}
	for _, pod := range f.pods {
		if zone, rack := f.place(pod); pod.Spec.NodeName == "" && rack != "" {
			delete(n, rackName{zone, rack})
		}
	}
	return n
}

// usable: new pods may be bound to the node.
func usable(node *corev1.Node) bool {
	return node.DeletionTimestamp == nil && !node.Spec.Unschedulable &&
		!slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Effect != corev1.TaintEffectPreferNoSchedule }) &&
		slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
		})
}
