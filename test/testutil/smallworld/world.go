// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package smallworld draws small clusters and gangs whose pods have rules about other pods, volumes, or devices, and compares the planner's
// answer with filters that accept pods on nodes one by one: the filters must accept a plan in every order, with retries, and where
// the planner refuses, they must accept no assignment.
package smallworld

import (
	"fmt"
	"iter"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"pgregory.net/rapid"

	"github.com/trellis-k8s/trellis/internal/affinity"
	"github.com/trellis-k8s/trellis/internal/claims"
	"github.com/trellis-k8s/trellis/internal/placement"
	"github.com/trellis-k8s/trellis/internal/topology"
	"github.com/trellis-k8s/trellis/internal/volumes"
)

const (
	gpu  = "nvidia.com/gpu"
	zone = "topology.kubernetes.io/zone"
	rack = "example.com/rack"
)

var (
	levels = topology.Levels{{Domain: "zone", Key: zone}, {Domain: "rack", Key: rack}}
	keys   = []string{zone, rack, corev1.LabelHostname}
	apps   = []string{"a", "b"}
	teams  = map[string]map[string]string{"ns": {"team": "x"}, "other": {"team": "y"}}
)

// World is a small cluster, and pods that wait to be placed together.
type World struct {
	Nodes []*corev1.Node
	// Bound are running pods, and Gang the waiting ones.
	Bound, Gang []*corev1.Pod
	// Required is the level at which one domain must hold the gang; topology.NoLevel for none.
	Required int
	// Volumes are volume claims, volumes and their providers; Devices are device claims and the providers of devices.
	Volumes, Devices []runtime.Object
}

// Filters accept pods on nodes, like a scheduler.
type Filters interface {
	// Lets reports whether a pod may be bound to a node, given the bound pods.
	Lets(pod *corev1.Pod, node string) bool
	// Set replaces the bound pods.
	Set(pods []*corev1.Pod)
}

// Check compares the planner's answer with filters that have the world's nodes and objects, but no pods.
func (w *World) Check(rt *rapid.T, f Filters) {
	s := &scheduler{Filters: f}
	s.set(w.Bound)
	r := w.Plan()
	switch {
	case r.Refusal == nil:
		at := map[string]string{}
		for _, p := range r.Pods {
			at[p.Name] = p.Node
		}
		if left := w.bind(s, r.Domain, at); len(left) > 0 {
			rt.Fatalf("planned on %v, and the kube-scheduler does not bind %v", r.Pods, left)
		}
	case r.Refusal.Code == placement.CodeBudgetExhausted: // neither a plan nor a refusal
	default:
		if found := w.search(s); found != nil {
			rt.Fatalf("refused: %s\nand the kube-scheduler would bind %v", r.Refusal.Message(), found)
		}
	}
}

// Objects returns the objects that filters look up: namespaces, and objects that determine where volumes can be used.
func (w *World) Objects() (list []runtime.Object) {
	for _, name := range slices.Sorted(maps.Keys(teams)) {
		list = append(list, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: teams[name]}})
	}
	return append(list, w.Volumes...)
}

// Plan is the planner's decision for the waiting pods.
type Plan struct {
	placement.ReplicaResult
	Demand  placement.Demand
	Cluster *topology.Cluster
}

// Plan plans the gang.
func (w *World) Plan() Plan {
	store := volumes.NewStore()
	for _, o := range w.Volumes {
		store.Set(o)
	}
	devices := claims.NewStore(allocate)
	for _, o := range w.Devices {
		devices.Set(o)
	}
	c := topology.NewCluster()
	c.Binders = []topology.Binder{&affinity.Binder{Namespaces: teams}, store, devices}
	c.Serve(topology.ServedBy(w.deviceClasses()))
	for _, n := range w.Nodes {
		c.SetNode(n)
	}
	for _, p := range w.Bound {
		c.SetPod(p)
	}
	replica := placement.Replica{}
	for _, p := range w.Gang {
		replica.Pods = append(replica.Pods, placement.Pod{ID: topology.PodID(p), Name: p.Name, Shape: topology.ShapeOf(p)})
	}
	demand := placement.Demand{
		Name: "g", Levels: levels, Required: topology.NoLevel, Preferred: topology.NoLevel,
		Components: []placement.Component{{
			Name: "s", Multinode: true, Required: w.Required, Preferred: topology.NoLevel, Waiting: []placement.Replica{replica},
		}},
	}
	return Plan{placement.PlanGraph(c, demand, placement.Options{}).Replicas[0], demand, c}
}

// bind binds the pods to their planned hosts in every order, retrying refused pods after others were bound. It returns the pods left in the
// first order that does not bind all.
func (w *World) bind(s *scheduler, domain topology.Path, at map[string]string) (left []string) {
	before := s.pods
	for order := range permutations(len(w.Gang)) {
		waiting := make([]*corev1.Pod, 0, len(order))
		for _, i := range order {
			waiting = append(waiting, w.Gang[i])
		}
		for some := true; some; {
			count := len(waiting)
			waiting = slices.DeleteFunc(waiting, func(p *corev1.Pod) bool {
				lets := s.Lets(pinned(p, domain, at[p.Name]), at[p.Name])
				if lets {
					s.set(append(s.pods[:len(s.pods):len(s.pods)], boundTo(p, at[p.Name])))
				}
				return lets
			})
			some = len(waiting) < count
		}
		s.set(before)
		if len(waiting) > 0 {
			for _, p := range waiting {
				left = append(left, p.Name)
			}
			return left
		}
	}
	return nil
}

// permutations yields all orders of n things.
func permutations(n int) iter.Seq[[]int] {
	return func(yield func([]int) bool) {
		order := make([]int, n)
		for i := range order {
			order[i] = i
		}
		permute(order, 0, yield)
	}
}

func permute(order []int, from int, yield func([]int) bool) bool {
	if from == len(order) {
		return yield(order)
	}
	for i := from; i < len(order); i++ {
		order[from], order[i] = order[i], order[from]
		if !permute(order, from+1, yield) {
			return false
		}
		order[from], order[i] = order[i], order[from]
	}
	return true
}

// search tries all assignments, pod by pod in every order, in each domain of the required level; nil if the filters accept none. Each pod
// is pinned to its domain, where its own rules must be met, and to its host.
func (w *World) search(s *scheduler) map[string]string {
	domains := map[string]topology.Path{"": nil}
	if w.Required != topology.NoLevel {
		domains = map[string]topology.Path{}
		for _, n := range w.Nodes {
			if path := levels.PathOf(n.Labels); len(path) > w.Required {
				path = path.Truncate(w.Required)
				domains[path.String()] = path
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(domains)) {
		tried := map[string]bool{}
		if found := w.extend(s, domains[name], map[string]string{}, tried); found != nil {
			return found
		}
	}
	return nil
}

func (w *World) extend(s *scheduler, domain topology.Path, at map[string]string, tried map[string]bool) map[string]string {
	if len(at) == len(w.Gang) {
		now := s.pods
		s.set(w.Bound)
		defer s.set(now)
		if len(w.bind(s, domain, at)) > 0 {
			return nil // the result depends on the order
		}
		return maps.Clone(at)
	}
	key := fmt.Sprint(at)
	if tried[key] {
		return nil
	}
	tried[key] = true
	before := s.pods
	for _, p := range w.Gang {
		if at[p.Name] != "" {
			continue
		}
		for _, n := range w.Nodes {
			if !s.Lets(pinned(p, domain, ""), n.Name) || !s.Lets(pinned(p, domain, n.Name), n.Name) {
				continue
			}
			at[p.Name] = n.Name
			s.set(append(before[:len(before):len(before)], boundTo(p, n.Name)))
			found := w.extend(s, domain, at, tried)
			delete(at, p.Name)
			s.set(before)
			if found != nil {
				return found
			}
		}
	}
	return nil
}

// scheduler is filters with their bound pods.
type scheduler struct {
	Filters
	pods []*corev1.Pod
}

func (s *scheduler) set(pods []*corev1.Pod) {
	s.pods = pods
	s.Set(pods)
}

// pinned returns a pod as released: pinned to its domain and host.
func pinned(p *corev1.Pod, domain topology.Path, host string) *corev1.Pod {
	p = p.DeepCopy()
	p.Spec.NodeSelector = maps.Clone(p.Spec.NodeSelector)
	if p.Spec.NodeSelector == nil {
		p.Spec.NodeSelector = map[string]string{}
	}
	maps.Copy(p.Spec.NodeSelector, levels.Selector(domain))
	if host != "" {
		pinHost(p, host)
	}
	return p
}

// pinHost makes every term of the pod's node affinity require the host.
func pinHost(p *corev1.Pod, host string) {
	if p.Spec.Affinity == nil {
		p.Spec.Affinity = &corev1.Affinity{}
	}
	required := &corev1.NodeSelector{NodeSelectorTerms: make([]corev1.NodeSelectorTerm, 1)}
	if a := p.Spec.Affinity.NodeAffinity; a != nil && a.RequiredDuringSchedulingIgnoredDuringExecution != nil {
		required = a.RequiredDuringSchedulingIgnoredDuringExecution.DeepCopy()
	}
	for i := range required.NodeSelectorTerms {
		t := &required.NodeSelectorTerms[i]
		t.MatchFields = append(t.MatchFields, corev1.NodeSelectorRequirement{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn,
			Values: []string{host}})
	}
	p.Spec.Affinity.NodeAffinity = &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: required}
}

func boundTo(p *corev1.Pod, node string) *corev1.Pod {
	p = p.DeepCopy()
	p.Spec.NodeName = node
	return p
}
