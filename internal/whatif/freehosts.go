// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package whatif

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/trellis-k8s/trellis/internal/placement"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// Bounds of the search for one refused replica: the number of tried domains, of all plans, of plans in one domain, and of steps for one
// host.
const (
	maxTried  = 16
	maxPlans  = 12
	maxRounds = 4
	maxSteps  = 8
)

// trial searches for changes on the planner's cluster that make a refused replica fit. It reverts all of its changes.
type trial struct {
	*Planner
	graph   *Plan
	replica replicaKey
	tree    *topology.Tree
	// own has the names of the graph's pods. occupants lists, by evaluated host, the other pods that could be removed. priority is the
	// replica's priority.
	own       map[types.NamespacedName]bool
	occupants map[string][]Occupant
	priority  int32
	// scaledIn counts the removed replicas by group, and deleted holds the deleted deployments.
	scaledIn map[types.NamespacedName]int
	deleted  map[types.NamespacedName]bool
	// orders caches, by group, the replica ordinals in the order of scale-in.
	orders map[types.NamespacedName][]int32
	// nodes holds the changed Node objects.
	nodes map[string]*corev1.Node
	// plans is the number of plans made for the graph. places has, by component, the ordinals that the last plan placed. It covers only the
	// [placement.Demand] that contains the refused replica.
	plans  int
	places map[string][]int
}

func (p *Planner) newTrial(g *Plan, replica replicaKey) *trial {
	t := &trial{Planner: p, graph: g, replica: replica, own: g.names(), occupants: map[string][]Occupant{},
		orders: map[types.NamespacedName][]int32{}}
	place := g.request.asked.Graph.PlaceOf(replica.component)
	levels, selector := place.Levels, place.NodeSelector
	if slices.ContainsFunc(g.Replicas, func(r Replica) bool { return r.Free && r.Component == replica.component }) {
		levels, selector = nil, nil // the kube-scheduler places them
	}
	t.tree, t.priority = p.cluster.Tree(levels, selector), g.priorityOf(replica.component)
	return t
}

// priorityOf returns the priority with which replicas of a component are planned.
func (g *Plan) priorityOf(component string) int32 {
	for _, demand := range g.request.freeGraphs {
		if slices.ContainsFunc(demand.Components, func(c placement.Component) bool { return c.Name == component }) {
			return demand.Priority
		}
	}
	return g.request.asked.Graph.Priority
}

// free tries to free a domain for the replica. It returns the hosts to free, and the domain that contains these hosts.
func (t *trial) free(c candidate, leaf *placement.Refusal) (domain topology.Path, hosts []Obstacle, fits bool) {
	t.cluster.Begin()
	defer t.cluster.Rollback()
	t.nodes, t.scaledIn, t.deleted = map[string]*corev1.Node{}, map[types.NamespacedName]int{}, map[types.NamespacedName]bool{}
	at, list := c.domain, c.list
	domain = t.tree.Path(at)
	for range maxRounds {
		shape, pods := missing(t.tree, at, leaf.Need, t.graph.shapes)
		if shape == nil || t.plans == maxPlans || !t.open(at, shape, pods, list, &hosts) {
			return nil, nil, false
		}
		refusal, planned := t.again()
		if planned && refusal == nil {
			t.nameWays(hosts)
			return domain, hosts, true
		}
		if leaf = culprit(refusal); leaf == nil || leaf.Closest == nil {
			return nil, nil, false
		}
		found := false
		if at, found = t.tree.Find(leaf.Closest.Domain); !found {
			return nil, nil, false
		}
		if shape, _ = missing(t.tree, at, leaf.Need, t.graph.shapes); shape == nil {
			return nil, nil, false
		}
		domain, list = common(domain, t.tree.Path(at)), t.blocked(t.tree.View(shape), []topology.DomainID{at})[0]
	}
	return nil, nil, false
}

// nameWays determines, for each pod on the hosts, how to remove the pod permanently.
func (t *trial) nameWays(hosts []Obstacle) {
	for i := range hosts {
		for j := range hosts[i].Pods {
			o := &hosts[i].Pods[j]
			o.Way = t.way(o)
		}
	}
}

// common returns the narrowest domain that contains two domains.
func common(a, b topology.Path) topology.Path {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return a[:n]
}

// open frees hosts of a domain, in the order of the list, until the domain holds the given number of pods of a shape. It frees at least one
// host. It returns false if the list does not suffice.
func (t *trial) open(at topology.DomainID, shape *topology.Shape, pods int, list []Obstacle, hosts *[]Obstacle) bool {
	view, opened := t.tree.View(shape), false
	for _, o := range list {
		before := view.Fit(at)
		if opened && before >= pods {
			return true
		}
		if i := slices.IndexFunc(*hosts, func(other Obstacle) bool { return other.Node == o.Node }); i >= 0 {
			o = (*hosts)[i] // this host needs a further step
		}
		t.cluster.Begin()
		node, scaledIn, deleted := t.nodes[o.Node], maps.Clone(t.scaledIn), maps.Clone(t.deleted)
		if !t.openHost(&o, shape) || view.Fit(at) <= before {
			t.cluster.Rollback()
			t.nodes[o.Node], t.scaledIn, t.deleted = node, scaledIn, deleted
			continue
		}
		t.cluster.Commit()
		opened = true
		*hosts = append(slices.DeleteFunc(*hosts, func(other Obstacle) bool { return other.Node == o.Node }), o)
	}
	return opened && view.Fit(at) >= pods
}

// openHost changes a host step by step until a pod of the shape fits on it.
func (t *trial) openHost(o *Obstacle, shape *topology.Shape) bool {
	o.Taints, o.Pods = slices.Clone(o.Taints), slices.Clone(o.Pods)
	for range maxSteps {
		why, excluded := t.cluster.Why(o.Node, shape)
		if !excluded {
			return true
		}
		if !t.step(o, why) {
			return false
		}
	}
	return false
}

// step removes one reason that keeps the pods off a host. It returns false if this is impossible.
func (t *trial) step(o *Obstacle, why topology.Exclusion) bool {
	if why.Kind == topology.KindResource {
		return t.evict(o, why)
	}
	node := t.node(o.Node)
	if node == nil {
		return false
	}
	switch why.Kind {
	case topology.KindCordoned:
		node.Spec.Unschedulable, o.Cordoned = false, true
		dropTaints(node, func(taint *corev1.Taint) bool { return taint.Key == corev1.TaintNodeUnschedulable })
	case topology.KindNotReady:
		o.Broken = true
		repair(node)
	case topology.KindTaint:
		if slices.ContainsFunc(node.Spec.Taints, func(taint corev1.Taint) bool { return bad(&taint) && taint.ToString() == why.Detail }) {
			o.Broken = true
			repair(node)
			break
		}
		o.Taints = append(o.Taints, why.Detail)
		dropTaints(node, func(taint *corev1.Taint) bool { return taint.ToString() == why.Detail })
	default:
		return false
	}
	t.cluster.SetNode(node)
	return true
}

// conditionTaints is the key prefix of the taints that the node lifecycle controller sets. The controller removes each taint when its cause
// is gone.
const conditionTaints = "node.kubernetes.io/"

// repair makes a node ready and removes the taints that mark it as unfit, except for the taint of a cordon.
func repair(node *corev1.Node) {
	for i := range node.Status.Conditions {
		if node.Status.Conditions[i].Type == corev1.NodeReady {
			node.Status.Conditions[i].Status = corev1.ConditionTrue
		}
	}
	dropTaints(node, func(taint *corev1.Taint) bool { return bad(taint) && taint.Key != corev1.TaintNodeUnschedulable })
}

// badlyTainted reports whether a node has a taint that marks it as unfit for pods.
func (t *trial) badlyTainted(name string) bool {
	i := slices.IndexFunc(t.world.Nodes, func(n *corev1.Node) bool { return n.Name == name })
	return i >= 0 && slices.ContainsFunc(t.world.Nodes[i].Spec.Taints, func(taint corev1.Taint) bool {
		return bad(&taint) && taint.Key != corev1.TaintNodeUnschedulable
	})
}

func dropTaints(node *corev1.Node, drop func(*corev1.Taint) bool) {
	node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints, func(taint corev1.Taint) bool { return drop(&taint) })
}

// node returns a copy of a Node object that includes the trial's changes so far; nil if the node does not exist.
func (t *trial) node(name string) *corev1.Node {
	node := t.nodes[name]
	if node == nil {
		i := slices.IndexFunc(t.world.Nodes, func(n *corev1.Node) bool { return n.Name == name })
		if i < 0 {
			return nil
		}
		node = t.world.Nodes[i]
	}
	node = node.DeepCopy()
	t.nodes[name] = node
	return node
}

// evict removes the fewest other pods that free enough of a host's missing resource. It also removes all pods that leave together with
// them.
func (t *trial) evict(o *Obstacle, why topology.Exclusion) bool {
	pods, enough := chosen(t.present(o.Node), why)
	if !enough || len(pods) == 0 {
		return false
	}
	for i := range pods {
		t.leave(&pods[i])
	}
	o.Pods = append(o.Pods, pods...)
	return true
}

// again plans the graph on the cluster in its current state, drops the plan, and returns the replica's refusal. planned is false if the
// plan does not contain the replica.
func (t *trial) again() (refusal *placement.Refusal, planned bool) {
	t.plans++
	t.cluster.Begin()
	defer t.cluster.Rollback()
	r, options := t.graph.request, t.options
	options.Domains = false
	for _, g := range r.freeGraphs {
		for _, component := range g.Components {
			for _, replica := range component.Waiting {
				for _, pod := range replica.Pods {
					t.cluster.Forget(pod.ID) // it is planned last
				}
			}
		}
	}
	for _, g := range append([]placement.Demand{r.asked.Graph}, r.freeGraphs...) {
		result := placement.PlanGraph(t.cluster, g, options)
		t.places = map[string][]int{}
		for _, one := range result.Replicas {
			if one.Refusal == nil {
				t.places[one.Component] = append(t.places[one.Component], one.Ordinal)
			}
			if one.Component == t.replica.component && one.Ordinal == t.replica.ordinal {
				refusal, planned = one.Refusal, true
			}
		}
		if planned {
			return refusal, true
		}
	}
	return nil, false
}
