// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package repack

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/trellis-k8s/trellis/internal/placement"
	"github.com/trellis-k8s/trellis/internal/topology"
)

const (
	gpu  = "nvidia.com/gpu"
	none = topology.NoLevel
)

var levels = topology.Levels{{Domain: "zone", Key: "zone"}, {Domain: "rack", Key: "rack"}}

var noon = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)

func shapeOf(gpus int64) *topology.Shape { return topology.ShapeOf(podOf("", gpus, "")) }

func podOf(name string, gpus int64, node string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)}}
	pod.Spec.NodeName = node
	pod.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{gpu: *resource.NewQuantity(gpus, resource.DecimalSI)}}}}
	return pod
}

// hall is a cluster in plain numbers: what the brute force works on.
type hall struct {
	paths []topology.Path
	gpus  []int64
	// fixed are the GPUs that pods use which never move.
	fixed    []int64
	replicas []Replica
}

// nodeName of the i-th host.
func nodeName(i int) string { return fmt.Sprintf("h%04d", i) }

// add adds hosts of a rack.
func (h *hall) add(path string, gpus ...int64) *hall {
	for _, n := range gpus {
		h.paths, h.gpus, h.fixed = append(h.paths, topology.ParsePath(path)), append(h.gpus, n), append(h.fixed, 0)
	}
	return h
}

// runs adds a replica with a pod of so many GPUs on each of the hosts. within bounds it, required is the level of which one domain holds it.
func (h *hall) runs(name, within string, required int, gpus int64, hosts ...int) *hall {
	r := Replica{Namespace: "ns", Graph: name, Component: "Worker", Created: noon.Add(-2 * Rest)}
	r.Group = &placement.Group{Required: required, Preferred: none, Within: topology.ParsePath(within)}
	for i, host := range hosts {
		r.Pods = append(r.Pods, Pod{ID: fmt.Sprintf("%s-%d", name, i), Node: nodeName(host), GPUs: gpus, Requests: shapeOf(gpus).Requests()})
		r.Group.Pods = append(r.Group.Pods, placement.Pod{ID: fmt.Sprintf("move/%s-%d", name, i), Name: name, Shape: shapeOf(gpus)})
	}
	h.replicas = append(h.replicas, r)
	return h
}

// uses has pods that never move use GPUs of a host.
func (h *hall) uses(host int, gpus int64) *hall {
	h.fixed[host] += gpus
	return h
}

func (h *hall) place() Place {
	c := topology.NewCluster()
	for i, path := range h.paths {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName(i), Labels: levels.Selector(path)}}
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		n.Status.Allocatable = corev1.ResourceList{gpu: *resource.NewQuantity(h.gpus[i], resource.DecimalSI), corev1.ResourcePods: resource.MustParse("110")}
		c.SetNode(n)
		if h.fixed[i] > 0 {
			c.SetPod(podOf("fixed-"+strconv.Itoa(i), h.fixed[i], nodeName(i)))
		}
	}
	for i := range h.replicas {
		for k, pod := range h.replicas[i].Pods {
			c.SetPod(podOf(pod.ID, h.replicas[i].Pods[k].GPUs, pod.Node))
		}
	}
	return Place{Cluster: c, Levels: levels}
}

// gangOf is a gang of pods of so many GPUs each in one domain of a level.
func gangOf(level, pods int, gpus int64) Gang {
	g := Gang{Refused: placement.Refused{Level: level}}
	g.Group = &placement.Group{Name: "Worker-0", Required: level, Preferred: none}
	for i := range pods {
		g.Group.Pods = append(g.Group.Pods, placement.Pod{ID: fmt.Sprintf("gang-%d", i), Name: "gang", Shape: shapeOf(gpus)})
	}
	return g
}

// free are the GPUs that are left on each host when some replicas are off.
func (h *hall) free(off func(int) bool) []int64 {
	free := slices.Clone(h.gpus)
	for i := range free {
		free[i] -= h.fixed[i]
	}
	for i, r := range h.replicas {
		if off(i) {
			continue
		}
		for _, pod := range r.Pods {
			free[h.host(pod.Node)] -= pod.GPUs
		}
	}
	return free
}

func (h *hall) host(name string) int {
	n, err := strconv.Atoi(name[1:])
	if err != nil {
		panic(err)
	}
	return n
}

// plain is a group in plain numbers.
type plain struct {
	within   topology.Path
	required int
	gpus     []int64
}

func plainOf(g *placement.Group) plain {
	p := plain{within: g.Within, required: g.Required}
	for _, pod := range g.Pods {
		var n int64
		for _, r := range pod.Shape.Requests() {
			if r.Name == gpu {
				n = r.Amount
			}
		}
		p.gpus = append(p.gpus, n)
	}
	return p
}

// packs reports whether all groups fit at once, by trying everything.
func (h *hall) packs(free []int64, groups []plain) bool {
	return len(groups) == 0 || h.places(free, groups[0], func() bool { return h.packs(free, groups[1:]) })
}

// packsInOrder reports whether a gang fits after replicas have moved one after the other, each to a place that is free while it runs.
func (h *hall) packsInOrder(free []int64, left []*Replica, gang plain) bool {
	if len(left) == 0 {
		return h.packs(free, []plain{gang})
	}
	for i, r := range left {
		others := slices.Delete(slices.Clone(left), i, i+1)
		if h.places(free, plainOf(r.Group), func() bool {
			for _, pod := range r.Pods {
				free[h.host(pod.Node)] += pod.GPUs
			}
			found := h.packsInOrder(free, others, gang)
			for _, pod := range r.Pods {
				free[h.host(pod.Node)] -= pod.GPUs
			}
			return found
		}) {
			return true
		}
	}
	return false
}

// places tries every place of a group until the rest fits, too.
func (h *hall) places(free []int64, g plain, rest func() bool) bool {
	seen := map[string]bool{}
	for i := range h.paths {
		domain := h.paths[i].Truncate(max(g.required, g.within.Level()))
		if key := domain.String(); seen[key] || !g.within.Contains(domain) || len(domain) <= g.required {
			continue
		} else {
			seen[key] = true
		}
		if h.placesIn(free, domain, g.gpus, 0, rest) {
			return true
		}
	}
	return false
}

// placesIn places the pods of a group on hosts of a domain, pods of one size in the order of the hosts.
func (h *hall) placesIn(free []int64, domain topology.Path, pods []int64, from int, rest func() bool) bool {
	if len(pods) == 0 {
		return rest()
	}
	for i := from; i < len(free); i++ {
		if free[i] < pods[0] || !domain.Contains(h.paths[i]) {
			continue
		}
		next := 0
		if len(pods) > 1 && pods[1] == pods[0] {
			next = i
		}
		free[i] -= pods[0]
		found := h.placesIn(free, domain, pods[1:], next, rest)
		free[i] += pods[0]
		if found {
			return true
		}
	}
	return false
}

// cheapest is the least cost of moves that free a place, by trying every set of replicas.
func (h *hall) cheapest(gang Gang, limits Limits) (Cost, bool) {
	var best Cost
	found := false
	for set := range 1 << len(h.replicas) {
		in := func(i int) bool { return set&(1<<i) != 0 }
		var moving []*Replica
		groups := []plain{plainOf(gang.Group)}
		allowed := true
		for i := range h.replicas {
			if r := &h.replicas[i]; in(i) {
				moving, groups = append(moving, r), append(groups, plainOf(r.Group))
				allowed = allowed && r.Priority <= gang.Priority && limits.Now.Sub(r.Created) >= Rest
			}
		}
		cost := CostOf(moving)
		if !allowed || limits.MaxGPUs > 0 && cost.GPUs > limits.MaxGPUs || found && cost.Compare(best) >= 0 {
			continue
		}
		fits := h.packs(h.free(in), groups)
		if fits && limits.InOrder {
			fits = h.packsInOrder(h.free(func(int) bool { return false }), moving, groups[0])
		}
		if fits {
			best, found = cost, true
		}
	}
	return best, found
}

// failer is a test, or a case of a property.
type failer interface {
	Helper()
	Errorf(format string, args ...any)
}

// check reports what is wrong with a plan: it is carried out in its order, by plain numbers.
func (h *hall) check(t failer, gang Gang, plan *Plan) {
	t.Helper()
	done := map[string][]string{}
	free := h.free(func(int) bool { return false })
	for _, m := range plan.Moves {
		leave := func() {
			for _, pod := range m.Replica.Pods {
				free[h.host(pod.Node)] += pod.GPUs
			}
		}
		g := plainOf(m.Replica.Group)
		if m.InPlace {
			leave()
		}
		var domain topology.Path
		for i, node := range m.Nodes {
			host := h.host(node)
			free[host] -= g.gpus[i]
			if in := h.paths[host].Truncate(max(g.required, g.within.Level())); i == 0 {
				domain = in
			} else if !in.Equal(domain) {
				t.Errorf("%s is in %s and %s", m.Replica.Name(), domain, in)
			}
			if free[host] < 0 && !slices.ContainsFunc(plan.Moves, func(o Move) bool { return o.InPlace }) {
				t.Errorf("%s moves to %s, which is not free yet", m.Replica.Name(), node)
			}
		}
		if !g.within.Contains(domain) || len(m.Nodes) != len(g.gpus) {
			t.Errorf("%s moves to %v in %s, and is bounded by %s", m.Replica.Name(), m.Nodes, domain, g.within)
		}
		if !m.InPlace {
			leave()
		}
		done[m.Replica.Name()] = m.Nodes
	}
	for i, n := range free {
		if n < 0 {
			t.Errorf("host %d lacks %d GPUs", i, -n)
		}
	}
	if len(done) != plan.Cost.Replicas {
		t.Errorf("%d moves, and a cost of %d replicas", len(done), plan.Cost.Replicas)
	}
	if gang.Group == nil {
		return
	}
	g := plainOf(gang.Group)
	if g.within = plan.Domains[0]; !h.packs(free, []plain{g}) {
		t.Errorf("the gang does not fit in %s after the moves", plan.Domains[0])
	}
}
