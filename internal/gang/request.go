// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"cmp"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/assignment"
	"github.com/trellis-k8s/trellis/internal/placement"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// Key names one replica of a graph.
type Key = assignment.Key

// Request is a graph in the planner's terms, with the data that is needed to carry out a plan.
type Request struct {
	Graph placement.Demand
	// Gated are the gated pods that a plan may release, by ID.
	Gated map[string]*corev1.Pod
	Progress
	Unplanned

	// o is the observation from which the request is made.
	o *Observation
	// incomplete are replicas with pods that are wanted and do not exist yet. A plan includes these pods, but the replicas are not
	// released.
	incomplete map[Key]bool
	// replacing are components with too few waiting replicas to begin a base gang, because replicas are being recreated
	// (docs/placement.md#how-much-begins-together).
	replacing map[string]bool
	// left has, by replica, the former domain that the plan does not try first, and the reason.
	left map[Key]left
	// surplus are replicas beyond the number that the component wants permanently. They wait for capacity during an update, and users are
	// not notified.
	surplus map[Key]bool
	inPart
	admission admission
	// ranked: the graph's priority has been set from a pod.
	ranked bool
}

// Progress describes which replicas of a graph exist and are placed.
type Progress struct {
	// Creating: a scaling group of the graph does not exist yet.
	Creating bool
	// Wanted and Placed count the replicas that Trellis places.
	Wanted, Placed int

	// unbound: a replica is being replaced, or has a released pod without a node.
	unbound bool
}

// Unplanned are the waiting replicas that are not planned, by cause.
type Unplanned struct {
	// Blocked are replicas that are not planned, because a level that they need is gone.
	Blocked []Waiting
	// Refused contains released replicas that are not bound for a known reason, for example because their scheduler refuses them or no
	// scheduler tries to bind them. It also contains replicas that cannot be recreated yet, because one of their pods does not terminate.
	Refused []Waiting
	// Unadmitted are replicas that are not planned because pods have scheduling gates of other controllers: their own pods, or pods of
	// replicas that are placed together with them.
	Unadmitted []Waiting
}

// NewRequest translates an observation for the planner. The request includes only gated groups; the kube-scheduler places the pods of other
// groups.
func NewRequest(o Observation) *Request {
	r := &Request{
		Gated: map[string]*corev1.Pod{}, incomplete: map[Key]bool{}, replacing: map[string]bool{}, surplus: map[Key]bool{},
		left: map[Key]left{}, inPart: inPart{gangs: map[Key]string{}, halves: map[Key]replicaState{}, rests: map[Key]baseRest{}},
		admission: admission{awaiting: map[Key]string{}, held: map[string]*corev1.Pod{}}, o: &o,
		Graph: placement.Demand{Name: o.DGD.Name, Required: topology.NoLevel, Preferred: topology.NoLevel, Refused: o.Refused},
	}
	r.Creating = MissingGroups(o.DGD, o.Groups)
	groups := slices.Clone(o.Groups)
	slices.SortFunc(groups, func(a, b *trellisv1alpha1.ScalingGroup) int { return cmp.Compare(a.Spec.Component, b.Spec.Component) })
	r.setConstraint(groups)
	byGroup := podsByGroup(o.Pods)

	states := map[string][]replicaState{}
	for _, sg := range groups {
		if render.Gated(sg) {
			states[sg.Spec.Component] = r.replicaStates(sg, byGroup[string(sg.UID)], &o)
		}
	}
	r.anchorGraph(states)
	r.findRests(&o, states)
	r.gateBaseGang(states)
	for _, sg := range groups {
		if render.Gated(sg) {
			r.addComponent(sg, states[sg.Spec.Component], &o)
		}
	}
	r.pairMissing(&o)
	r.blockBaseGang()
	r.Unadmitted = r.admission.hold(&r.Graph, r.Gated)
	return r
}

// HasWaiting reports whether any replica is to be planned.
func (r *Request) HasWaiting() bool {
	return slices.ContainsFunc(r.Graph.Components, func(s placement.Component) bool {
		return slices.ContainsFunc(s.Waiting, func(one placement.Replica) bool { return !one.Later })
	})
}

// AllBound reports whether every wanted replica is complete and all its pods have a node. A replica with leaving pods is not complete.
func (r *Request) AllBound() bool {
	return !r.Creating && !r.unbound && len(r.Blocked)+len(r.Unadmitted) == 0 && !r.HasWaiting()
}

// AllWaiting returns a Waiting with the given cause for each replica that must be planned.
func (r *Request) AllWaiting(code, message string) []Waiting {
	var out []Waiting
	for _, component := range r.Graph.Components {
		for _, replica := range component.Waiting {
			if !replica.Later {
				out = append(out, Waiting{Component: component.Name, Ordinal: replica.Ordinal, Code: code, Message: message})
			}
		}
	}
	return out
}

// Surplus reports whether a replica is surplus: the component does not want it permanently, but only during an update. Users are not
// notified when a surplus replica is not placed.
func (r *Request) Surplus(component string, ordinal int) bool {
	return r.surplus[Key{Component: component, Ordinal: ordinal}]
}

// MissingGroups reports whether a component with replicas has no scaling group yet. This happens while the cache lags behind the graph
// controller.
func MissingGroups(dgd *nvidiav1beta1.DynamoGraphDeployment, groups []*trellisv1alpha1.ScalingGroup) bool {
	have := map[string]bool{}
	for _, sg := range groups {
		have[sg.Spec.Component] = true
	}
	for i := range dgd.Spec.Components {
		if c := &dgd.Spec.Components[i]; !have[c.Name] && (c.Replicas == nil || *c.Replicas > 0) {
			return true
		}
	}
	return false
}

// setConstraint takes the graph's constraint from the first group that has a constraint, because all groups have the same frozen
// constraint.
func (r *Request) setConstraint(groups []*trellisv1alpha1.ScalingGroup) {
	for _, sg := range groups {
		t := sg.Spec.Topology
		if t == nil {
			continue
		}
		r.Graph.Levels = LevelsOf(t)
		r.Graph.NodeSelector = t.NodeSelector
		r.Graph.Required = r.Graph.Levels.Index(t.GraphPackDomain)
		r.Graph.Preferred = r.Graph.Levels.Index(t.GraphPreferredPackDomain)
		return
	}
}

// anchorGraph reads the graph domain from the path to which active replicas are pinned (docs/placement.md#which-domain). A replica that is
// being replaced does not count: it would tie the other replicas to its domain, into which its successor may not fit.
func (r *Request) anchorGraph(states map[string][]replicaState) {
	if r.Graph.Required == topology.NoLevel {
		return
	}
	for _, component := range slices.Sorted(maps.Keys(states)) {
		for _, state := range states[component] {
			if len(state.open) > 0 && !state.replaced() && len(state.path) > r.Graph.Required {
				r.Graph.Anchor = state.path.Truncate(r.Graph.Required)
				return
			}
		}
	}
}

func (r *Request) addComponent(sg *trellisv1alpha1.ScalingGroup, states []replicaState, o *Observation) {
	g := &groupView{
		r: r, sg: sg, last: lastHostsOf(sg), clusterTopology: o.ClusterTopology, lost: lostLevel(sg.Spec.Topology, o.ClusterTopology),
		states: states, admission: &o.Admission, wanted: map[string]*topology.Shape{}, ahead: lookAhead,
	}
	g.component = placement.Component{
		Name: sg.Spec.Component, Multinode: sg.Spec.Multinode,
		Required: topology.NoLevel, Preferred: topology.NoLevel, MinAvailable: int(render.MinAvailable(sg)),
		Apart: render.DistinctHosts(sg),
	}
	component := &g.component
	if t := sg.Spec.Topology; t != nil {
		levels := LevelsOf(t)
		component.Required, component.Preferred = levels.Index(t.PackDomain), levels.Index(t.PreferredPackDomain)
	}
	component.Place = r.placeOf(sg.Spec.Topology)
	component.Spread = spreadOf(sg.Spec.Topology, states)
	r.pair(sg, component, states)
	for _, state := range states {
		if len(state.open) == 0 {
			continue
		}
		component.InUse = append(component.InUse, state.path)
		if !component.Multinode && component.Required != topology.NoLevel && component.Anchor == nil && len(state.path) > component.Required {
			component.Anchor = state.path.Truncate(component.Required)
		}
	}
	for _, state := range states {
		if !r.surplus[g.keyOf(state)] {
			r.Wanted++
		}
		g.addReplica(state)
	}
	if component.Placed == 0 && len(component.Waiting) < component.MinAvailable && slices.ContainsFunc(states, replicaState.replaced) {
		r.replacing[component.Name] = true
	}
	r.Graph.Components = append(r.Graph.Components, *component)
}

// blockBaseGang blocks all waiting replicas if one replica of the base gang is blocked. The base gang is released as a unit, so one blocked
// component blocks all components (docs/placement.md#how-much-begins-together).
func (r *Request) blockBaseGang() {
	if r.Graph.Required == topology.NoLevel || r.Graph.Anchor != nil || len(r.Blocked) == 0 {
		return
	}
	for i := range r.Graph.Components {
		component := &r.Graph.Components[i]
		for _, replica := range component.Waiting {
			r.Blocked = append(r.Blocked, Waiting{
				Component: component.Name, Ordinal: replica.Ordinal, Code: placement.CodeBaseGangWaits,
				Message: "waits for the rest of its graph, with which it is placed together: " + r.Blocked[0].Message,
			})
		}
		component.Waiting = nil
	}
}
