// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/trellis-k8s/trellis/internal/bools"
	"github.com/trellis-k8s/trellis/internal/leaving"
)

// Cluster is the store of nodes and of the pods that use them. It is not safe for concurrent use.
type Cluster struct {
	resources resources
	// ignored are resources that are not counted on any node. served are resources that are counted only on the nodes that offer them.
	ignored Ignored
	served  map[string]bool
	// leaving are the rules that identify nodes about to be removed, which take no pods.
	leaving leaving.Rules
	// ignoresFeatures: see IgnoreDeclaredFeatures.
	ignoresFeatures bool

	nodes  []*node
	byName map[string]*node
	vacant []NodeID
	// present counts the nodes that have a Node object, softTaints the nodes with a PreferNoSchedule taint.
	present, softTaints int
	pods                map[string]*record
	loads               map[string]*held
	trees               map[string]*Tree
	log                 changeLog
	undo                []undo
	marks               []int
	// pending counts reservations by shape key.
	pending map[string]int
	// tick is a counter that provides the versions of node specs and the use times of views.
	tick uint64
	// work counts comparisons; see [Cluster.Work].
	work uint64
	// end is the value of work at which [Cluster.Spent] becomes true; 0: never.
	end uint64
	// specs counts the changes of node objects, and of the rules by which nodes are counted.
	specs uint64

	// GangOf returns the gang of a pod. If GangOf is nil or returns "", the pod is a gang of its own. Set it before the first pod is added.
	GangOf func(*corev1.Pod) string
	// OnFreed is called once when [Cluster.Freed] may have new results, and then not again until Freed is called; nil: no notification.
	OnFreed func()
	changes changes
	// calls is the number of the next call of Freed, from 1.
	calls uint64
	// priorities counts bound pods that are not being deleted, by priority.
	priorities map[int32]int

	// tallies is the buffer of CapacityByLevel.
	tallies []tally
	// Binders read further rules for the pods of a plan. Set them before the first plan.
	Binders []Binder
	// following are the bindings that receive every change of pods on nodes.
	following []Binding
	// repelling contains the pods with required anti-affinity that are bound or have a reservation, by the namespace to which the
	// anti-affinity applies.
	repelling map[string]map[string]struct{}

	// scratch is a reused node object for library functions.
	scratch corev1.Node
}

// record is one counted pod: a bound pod or, if shape is set, a reservation. Its fields other than added and pod never change, because
// transactions keep the old record.
type record struct {
	node  *node
	held  *held
	shape *Shape
	// pin are the node labels to which the reserved pod is pinned; nil: none. loose: only these labels pin the pod, so its scheduler may
	// bind it to a node other than the reserved node.
	pin   map[string]string
	loose bool
	// pod is the pod object, which must not be changed; nil for held capacity without a pod.
	pod *corev1.Pod
	// added is the number of the next call of [Cluster.Freed] if a transaction added the pod and nothing was counted for the pod before.
	added uint64
	// standing ranks a bound pod as a candidate for preemption.
	standing
}

// manyPods is the initial size of the pod map, so that the first large gang does not wait for the map to grow.
const manyPods = 2048

// NewCluster returns an empty store.
func NewCluster() *Cluster {
	return &Cluster{
		resources: newResources(),
		byName:    map[string]*node{},
		pods:      make(map[string]*record, manyPods),
		loads:     map[string]*held{},
		trees:     map[string]*Tree{},
		pending:   map[string]int{},

		priorities: map[int32]int{},
		repelling:  map[string]map[string]struct{}{},
		calls:      1,
	}
}

// SetNode adds or updates a node. It keeps the labels map of the object without a copy, because objects from an informer are never changed.
func (c *Cluster) SetNode(object *corev1.Node) {
	spec := c.specOf(object)
	if slices.Equal(spec.offers, c.resources.last) {
		spec.offers = c.resources.last // equal offers share memory
	} else {
		c.resources.last = spec.offers
	}
	if n, ok := c.byName[object.Name]; ok && n.spec.equal(&spec) {
		return
	}
	c.putSpec(object.Name, spec)
}

// Leaving sets the rules that identify nodes about to be removed. Such nodes take no pods. Call it before the first node is added.
func (c *Cluster) Leaving(rules leaving.Rules) { c.leaving = rules }

// DeleteNode removes a node's object. Pods bound to the node remain counted, in case the node returns.
func (c *Cluster) DeleteNode(name string) {
	if n, ok := c.byName[name]; ok && n.spec.present {
		c.putSpec(name, nodeSpec{})
	}
}

// NodeNames lists the nodes that have an object, sorted by name.
func (c *Cluster) NodeNames() []string {
	names := make([]string, 0, len(c.byName))
	for name, n := range c.byName {
		if n.spec.present {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Size returns the number of nodes that have an object.
func (c *Cluster) Size() int { return c.present }

// NodeName returns the name of a node.
func (c *Cluster) NodeName(id NodeID) string { return c.nodes[id].name }

// Node returns the ID of a node by its name; false when the cluster does not know the node.
func (c *Cluster) Node(name string) (NodeID, bool) {
	if n, ok := c.byName[name]; ok {
		return n.id, true
	}
	return 0, false
}

// NodeReady reports whether a node has an object and is ready.
func (c *Cluster) NodeReady(name string) bool {
	n, ok := c.byName[name]
	return ok && n.spec.present && !n.spec.notReady
}

// NodeLabels returns the labels of a node, nil when it has no object. Callers must not change them.
func (c *Cluster) NodeLabels(name string) map[string]string {
	if n, ok := c.byName[name]; ok {
		return n.spec.labels
	}
	return nil
}

// Work returns the number of comparisons so far. It never decreases. It counts, for each comparison of a pod with a node, the requests,
// ports, rules, selectors, tolerations, and the terms, expressions and values of affinity. It also counts each read of a node's or domain's
// count. Plans use this number to bound their cost.
func (c *Cluster) Work() uint64 { return c.work }

// Spend adds comparisons that a caller made itself.
func (c *Cluster) Spend(comparisons int) { c.work += uint64(max(comparisons, 0)) }

// Until makes binders stop expensive computations once Work reaches the given value; 0: never.
func (c *Cluster) Until(work uint64) { c.end = work }

// Spent reports whether the plan's budget of comparisons is used up.
func (c *Cluster) Spent() bool { return c.end > 0 && c.work >= c.end }

// recordWork is the cost of adding a pod to a node or removing it, in comparisons.
const recordWork = 16

// ensure returns the node with the given name. If the cluster has no such node, it adds a node without a Node object, so that pods can be
// counted on the node.
func (c *Cluster) ensure(name string) *node {
	if n, ok := c.byName[name]; ok {
		return n
	}
	n := &node{name: name}
	if last := len(c.vacant) - 1; last >= 0 {
		n.id, c.vacant = c.vacant[last], c.vacant[:last]
		c.nodes[n.id] = n
	} else {
		n.id = NodeID(len(c.nodes))
		c.nodes = append(c.nodes, n)
	}
	c.byName[name] = n
	return n
}

// release removes a node that has neither an object nor pods.
func (c *Cluster) release(n *node) {
	if n.spec.present || n.pods > 0 {
		return
	}
	delete(c.byName, n.name)
	c.nodes[n.id] = nil
	c.vacant = append(c.vacant, n.id)
}

// putSpec is the only function that changes a node's spec.
func (c *Cluster) putSpec(name string, spec nodeSpec) {
	n := c.ensure(name)
	if len(c.marks) > 0 {
		old := n.spec
		c.undo = append(c.undo, undo{name: name, spec: &old})
	}
	moved := n.spec.present != spec.present || !maps.Equal(n.spec.labels, spec.labels)
	c.present += bools.Int(spec.present) - bools.Int(n.spec.present)
	c.softTaints += bools.Int(len(spec.soft) > 0) - bools.Int(len(n.spec.soft) > 0)
	c.setOffers(n, n.spec.offers, spec.offers)
	n.spec = spec
	c.tick++
	c.specs++
	n.version = c.tick
	if moved {
		for _, t := range c.trees {
			t.place(n)
		}
	}
	c.log.touch(n.id)
	c.noteSpec(name)
	c.release(n)
}

// intern returns the shared form of a load. Equal loads in the cluster share one form.
func (c *Cluster) intern(l *load) *held {
	key := l.key()
	if h, ok := c.loads[key]; ok {
		return h
	}
	h := &held{key: key, ports: l.ports, exclusive: l.exclusive}
	h.wants = append(h.wants, want{name: string(corev1.ResourcePods), resource: podSlots, amount: 1})
	for _, r := range l.requests {
		h.wants = append(h.wants, want{r.Name, c.resources.of(r.Name), r.Amount, c.ignored.has(r.Name), c.served[r.Name]})
	}
	c.loads[key] = h
	return h
}

// unref drops a load that no pod and no view uses any more.
func (c *Cluster) unref(h *held) {
	if h.refs--; h.refs == 0 {
		delete(c.loads, h.key)
	}
}
