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

// Cluster is the store of nodes and of what uses them. It is not safe for concurrent use.
type Cluster struct {
	resources resources
	// ignored are resources that count nowhere, served those that count on the nodes that offer them only.
	ignored Ignored
	served  map[string]bool
	// leaving are the rules by which nodes take no pods because they are to be removed.
	leaving leaving.Rules
	// ignoresFeatures: see IgnoreDeclaredFeatures.
	ignoresFeatures bool

	nodes  []*node
	byName map[string]*node
	vacant []NodeID
	// present counts the nodes that have an object, softTaints those with a taint PreferNoSchedule.
	present, softTaints int
	pods                map[string]*record
	loads               map[string]*held
	trees               map[string]*Tree
	log                 changeLog
	undo                []undo
	marks               []int
	// pending counts reservations by shape key.
	pending map[string]int
	// tick numbers node specs and the uses of views.
	tick uint64
	// work counts comparisons; see [Cluster.Work].
	work uint64
	// end is the work with which [Cluster.Spent] begins; 0: never.
	end uint64
	// specs counts the changes of what is known of node objects, and of what counts there.
	specs uint64

	// GangOf names the gang that a pod is a member of; nil, or an empty answer: the pod is one by itself. Set it before the first pod.
	GangOf func(*corev1.Pod) string
	// OnFreed is called when [Cluster.Freed] may have something to tell, once until it is asked; nil: no one wants to know.
	OnFreed func()
	changes changes
	// calls numbers the calls of Freed, from 1.
	calls uint64
	// priorities counts bound pods that are not leaving, by priority.
	priorities map[int32]int

	// tallies are where CapacityByLevel adds up.
	tallies []tally
	// Binders read what else binds the pods of a plan. Set it before the first plan.
	Binders []Binder
	// following are told of every pod that is put on a node or taken off one.
	following []Binding
	// repelling are the pods with required anti-affinity, bound or with a reservation, by the namespace that it is about.
	repelling map[string]map[string]struct{}

	// scratch is handed to library functions that want a node object.
	scratch corev1.Node
}

// record is one counted pod: bound, or a reservation (then shape is set). It is replaced, never changed but for added: transactions keep
// the old one.
type record struct {
	node  *node
	held  *held
	shape *Shape
	// pin are the node labels the reserved pod is pinned to; nil: none. loose: these labels are all that pins it, so its scheduler may bind
	// it to another node than the one that is reserved.
	pin   map[string]string
	loose bool
	// pod is its object, which is only looked at; nil for capacity that no pod takes now.
	pod *corev1.Pod
	// added is set when nothing counted for the pod before, and a transaction added it: after which call of [Cluster.Freed].
	added uint64
	// standing is what counts for a bound pod when another one wants its capacity.
	standing
}

// manyPods is what a cluster has at least, so that the first large gang does not have to wait for the growth of a map.
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

// SetNode adds a node or takes over what changed of it. The labels map of the object is kept, not copied: objects from an informer are
// never written to.
func (c *Cluster) SetNode(object *corev1.Node) {
	spec := c.specOf(object)
	if slices.Equal(spec.offers, c.resources.last) {
		spec.offers = c.resources.last // in memory once
	} else {
		c.resources.last = spec.offers
	}
	if n, ok := c.byName[object.Name]; ok && n.spec.equal(&spec) {
		return
	}
	c.putSpec(object.Name, spec)
}

// Leaving sets which nodes are to be removed; they take no pods. Call it before the first node.
func (c *Cluster) Leaving(rules leaving.Rules) { c.leaving = rules }

// DeleteNode takes a node's object away. Pods bound there stay counted in case it returns.
func (c *Cluster) DeleteNode(name string) {
	if n, ok := c.byName[name]; ok && n.spec.present {
		c.putSpec(name, nodeSpec{})
	}
}

// NodeNames lists the nodes that have an object, in order.
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

// Size counts the nodes that have an object.
func (c *Cluster) Size() int { return c.present }

// NodeName returns the name of a node.
func (c *Cluster) NodeName(id NodeID) string { return c.nodes[id].name }

// Node addresses a node by its name; false when the cluster does not know it.
func (c *Cluster) Node(name string) (NodeID, bool) {
	if n, ok := c.byName[name]; ok {
		return n.id, true
	}
	return 0, false
}

// NodeReady reports whether a node has an object by which it is ready.
func (c *Cluster) NodeReady(name string) bool {
	n, ok := c.byName[name]
	return ok && n.spec.present && !n.spec.notReady
}

// NodeLabels returns the labels of a node, nil when it has no object. They must not be changed.
func (c *Cluster) NodeLabels(name string) map[string]string {
	if n, ok := c.byName[name]; ok {
		return n.spec.labels
	}
	return nil
}

// Work counts what was compared and asked for so far: of one pod with one node each request, port, rule, selector, toleration, and each
// term, expression and value of an affinity; and each count of a node or domain that was asked for. It never decreases. A plan bounds what
// it costs by it.
func (c *Cluster) Work() uint64 { return c.work }

// Spend adds what a caller has compared by itself.
func (c *Cluster) Spend(comparisons int) { c.work += uint64(max(comparisons, 0)) }

// Until stops binders from asking anything that takes long once this much work is done; 0: they may always ask.
func (c *Cluster) Until(work uint64) { c.end = work }

// Spent reports whether what a plan may compare is used up.
func (c *Cluster) Spent() bool { return c.end > 0 && c.work >= c.end }

// recordWork is what it costs to put a pod on a node or take it off, in comparisons.
const recordWork = 16

// ensure returns the node of that name, known by its pods only if need be.
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

// release forgets a node that has neither an object nor pods.
func (c *Cluster) release(n *node) {
	if n.spec.present || n.pods > 0 {
		return
	}
	delete(c.byName, n.name)
	c.nodes[n.id] = nil
	c.vacant = append(c.vacant, n.id)
}

// putSpec is the one place where what is known of a node object changes.
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

// intern returns the load in this cluster's terms.
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
