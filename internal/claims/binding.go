// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/trellis-k8s/trellis/internal/topology"
)

// Bind implements topology.Binder.
func (s *Store) Bind(c *topology.Cluster, _ *topology.Tree, shapes []*topology.Shape) topology.Binding {
	if s.Allocator == nil || !slices.ContainsFunc(shapes, func(shape *topology.Shape) bool { return concerned(c, shape) }) ||
		s.Unknown() != "" {
		return nil
	}
	b := &binding{
		store: s, cluster: c, byText: map[string]*class{}, ofShape: map[*topology.Shape]*class{}, ofRule: map[*rule]*class{},
		hosts: map[string]*host{}, shared: map[types.NamespacedName]*allocation{}, wide: map[poolID][]resourcev1.DeviceRequestAllocationResult{},
	}
	s.prune(c)
	for _, shape := range shapes {
		b.add(shape)
	}
	if len(b.ofShape) == 0 {
		return nil
	}
	b.putOthers()
	b.judge()
	if len(b.ofRule) == 0 {
		return nil
	}
	return b
}

// concerned reports whether pods of a shape have claims, or request resources that a DeviceClass serves.
func concerned(c *topology.Cluster, shape *topology.Shape) bool {
	return shape.Pod() != nil && (len(shape.Pod().Spec.ResourceClaims) > 0 || len(c.Served(shape)) > 0)
}

// binding contains the claims of the pods of one plan, and the devices that the plan has allocated to these claims.
type binding struct {
	store   *Store
	cluster *topology.Cluster
	byText  map[string]*class
	ofShape map[*topology.Shape]*class
	ofRule  map[*rule]*class
	hosts   map[string]*host
	// shared are the shared claims that the plan has allocated.
	shared map[types.NamespacedName]*allocation
	// wide contains the allocated devices of pools that several nodes can access.
	wide map[poolID][]resourcev1.DeviceRequestAllocationResult
}

// class is a set of pods with equivalent claims.
type class struct {
	text, namespace string
	claims          []*claim
	// served are the requested resources that a DeviceClass serves on nodes that do not offer them.
	served []served
	rule   *rule
	names  *names
	rooms  map[question]int32
	// told caches the reasons of answers, with the claim names of the class filled in.
	told map[*answer]string
}

// host is the state of a node during the plan.
type host struct {
	*hostDevices
	// lacks are, by class, the resources of the class that the node does not offer, as a bit set.
	lacks map[*class]uint64
	// pods are the pods counted on the node, in the order in which they were added. fixed is the number of pods at the start of this list
	// that were on the node before the plan.
	pods  []entry
	fixed int
	// taken are the taken devices of the node, including the devices of these pods and of shared claims.
	taken state
}

// entry is a pod on a node, and the devices of its own claims.
type entry struct {
	class *class
	own   []resourcev1.DeviceRequestAllocationResult
	// allocated: the pod got all its devices.
	allocated bool
}

// allocation is a shared claim that the plan has allocated.
type allocation struct {
	pods  int
	at    *host
	where *nodeaffinity.NodeSelector
	here  bool
	given []resourcev1.DeviceRequestAllocationResult
}

// reaches reports whether the allocation can be used on a node.
func (a *allocation) reaches(h *host) bool {
	return a.at == h || !a.here && (a.where == nil || a.where.Match(h.node))
}

// add reads the claims of a pod of the plan.
func (b *binding) add(shape *topology.Shape) {
	if b.ofShape[shape] == nil && concerned(b.cluster, shape) {
		if c := b.classFor(shape.Pod(), b.cluster.Served(shape)); c != nil {
			b.ofShape[shape] = c
		}
	}
}

// classFor returns the class of a pod; nil if the pod has no claims or resources that can be counted, or if one of its claims is not
// counted.
func (b *binding) classFor(pod *corev1.Pod, resources []string) *class {
	list, _ := b.store.claimsOf(pod)
	c := &class{namespace: pod.Namespace, claims: list, served: b.store.servedOf(pod, resources[:min(len(resources), 32)])}
	c.rooms, c.told = map[question]int32{}, map[*answer]string{}
	if len(c.claims) == 0 && len(c.served) == 0 || slices.ContainsFunc(c.claims, func(c *claim) bool { return b.store.beyondOf(c) != "" }) {
		return nil
	}
	texts := []string{pod.Namespace}
	for _, one := range c.claims {
		texts = append(texts, one.text)
	}
	for _, one := range c.served {
		texts = append(texts, one.resource+textOf(one.requests))
	}
	c.text = strings.Join(texts, "\x00")
	if b.byText[c.text] == nil {
		b.byText[c.text] = c
	}
	return b.byText[c.text]
}

// specs returns the specs of all claims of the class that need an allocation.
func (c *class) specs() (list []*resourcev1.ResourceClaimSpec) {
	for _, one := range c.claims {
		if one.object != nil {
			list = append(list, &one.object.Spec)
		}
	}
	if len(c.served) > 0 {
		list = append(list, &c.made(1<<len(c.served)-1).Spec)
	}
	return list
}

func (c *class) servedNames() string {
	names := make([]string, 0, len(c.served))
	for _, one := range c.served {
		names = append(names, one.resource)
	}
	return strings.Join(names, ", ")
}

// host returns the state of a node, and reads the node on first use.
func (b *binding) host(name string) *host {
	if h := b.hosts[name]; h != nil {
		return h
	}
	b.cluster.Spend(1 + len(b.store.wide))
	devices := b.store.host(name, b.cluster.NodeLabels(name))
	h := &host{hostDevices: devices, taken: devices.taken}
	for id, results := range b.wide {
		if slices.ContainsFunc(h.pools, func(p *pool) bool { return p.id == id }) {
			h.taken = h.taken.with(devices, results)
		}
	}
	b.hosts[name] = h
	return h
}

// lacksOf returns, as a bit set, the resources of a class that a node does not offer.
func (b *binding) lacksOf(c *class, h *host) uint64 {
	if len(c.served) == 0 {
		return 0
	}
	lacks, known := h.lacks[c]
	if !known {
		for i := range c.served {
			if !b.cluster.Offers(h.node.Name, c.served[i].resource) {
				lacks |= 1 << i
			}
		}
		if h.lacks == nil {
			h.lacks = map[*class]uint64{}
		}
		h.lacks[c] = lacks
	}
	return lacks
}

// putOthers counts the pods outside the plan that are bound or have a reservation, if their claims are not allocated yet.
func (b *binding) putOthers() {
	type placed struct {
		name string
		pod  *corev1.Pod
		at   topology.NodeID
	}
	var list []placed
	b.cluster.EachPod(func(pod *corev1.Pod, n topology.NodeID) {
		if len(pod.Spec.ResourceClaims) > 0 || len(b.servedOf(pod)) > 0 {
			b.cluster.Spend(1)
			list = append(list, placed{pod.Namespace + "/" + pod.Name, pod, n})
		}
	})
	slices.SortFunc(list, func(x, y placed) int { return strings.Compare(x.name, y.name) }) // the result must not depend on the order of a map
	for _, one := range list {
		b.PutPod(one.pod, one.at, 1)
	}
	for _, h := range b.hosts {
		h.fixed = len(h.pods)
	}
}

// servedOf returns the resources of a pod that DeviceClasses serve and for which no devices are allocated yet. It returns none for a bound
// pod, because the kube-scheduler allocates the claim for these resources before it binds the pod.
func (b *binding) servedOf(pod *corev1.Pod) []string {
	if pod.Spec.NodeName != "" || pod.Status.ExtendedResourceClaimStatus != nil || b.cluster.ServesNone() {
		return nil
	}
	return b.cluster.Served(topology.ShapeOf(pod))
}

// Rule implements topology.Binding.
func (b *binding) Rule(s *topology.Shape) topology.Rule {
	if class := b.ofShape[s]; class != nil && class.rule != nil {
		return class.rule
	}
	return nil
}

func (b *binding) classOf(s *topology.Shape) *class { return b.ofRule[topology.RuleOf[*rule](s)] }
