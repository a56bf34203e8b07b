// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/engine"
	"github.com/trellis-k8s/trellis/internal/graph"
	"github.com/trellis-k8s/trellis/internal/placement"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// observed is all that one decision about a graph is made from.
type observed struct {
	dgd    *nvidiav1beta1.DynamoGraphDeployment
	groups []*trellisv1alpha1.ScalingGroup
	pods   []*corev1.Pod
	// profile is the ClusterTopology the graph names, as it is now; nil when there is none.
	profile *grovev1alpha1.ClusterTopology
	// releasing are pins sent out but perhaps not yet seen in pods, by pod ID.
	releasing map[string]topology.Path
	// idle are released pods that nothing tries to bind, by pod ID, and why.
	idle map[string]string
	// bars is why the graph's engine releases nothing now; "" when it does. objections are what its scheduler holds against released pods.
	bars       string
	objections map[types.UID]engine.Objection
}

// view is a graph in the planner's terms, with what it takes to carry a plan out.
type view struct {
	graph placement.Graph
	// gated pods by ID: the ones a plan may release.
	gated map[string]*corev1.Pod
	// incomplete replicas have pods that are wanted but not made yet. They count in looking ahead and are not released.
	incomplete map[replicaKey]bool
	// blocked replicas are not planned at all, because a level they need is gone.
	blocked []Waiting
	// refused replicas are released and not bound: the engine's scheduler refuses, or nothing tries.
	refused []Waiting
	// creating says that a scaling group of the graph is not made yet.
	creating bool
	// replacing are the services of which so much is recreated that a base gang would go without what belongs to it (docs/placement.md#how-much-begins-together).
	replacing map[string]bool
	// gangs of released pods by replica, so that the rest of a release cut short joins the same gang.
	gangs map[replicaKey]string
	// objections and idle are as observed.
	objections map[types.UID]engine.Objection
	idle       map[string]string
	// surplus replicas are more than the service wants for good: they wait for capacity beside an update and nobody is notified.
	surplus map[replicaKey]bool
	// wanted and placed count gated replicas.
	wanted, placed int
	// ranked says that the graph's priority is that of some pod by now.
	ranked bool
	// announced: what the base gang costs others was reported in an event.
	announced bool
}

type replicaKey struct {
	service string
	ordinal int
}

// newView translates. The engine only places gated groups; others are the kube-scheduler's alone.
func newView(o observed) view {
	v := view{
		gated: map[string]*corev1.Pod{}, incomplete: map[replicaKey]bool{}, gangs: map[replicaKey]string{}, replacing: map[string]bool{}, surplus: map[replicaKey]bool{}, objections: o.objections, idle: o.idle,
		graph: placement.Graph{Name: o.dgd.Name, Required: topology.NoLevel, Preferred: topology.NoLevel},
	}
	v.creating = missingGroups(o)
	groups := slices.Clone(o.groups)
	slices.SortFunc(groups, func(a, b *trellisv1alpha1.ScalingGroup) int { return cmp.Compare(a.Spec.Service, b.Spec.Service) })
	v.setConstraint(groups)
	byGroup := podsByGroup(o.pods)

	states := map[string][]replicaState{}
	for _, sg := range groups {
		if !graph.Gated(sg) {
			continue
		}
		states[sg.Spec.Service] = v.replicaStates(sg, byGroup[string(sg.UID)], o.releasing)
	}
	v.anchorGraph(states)
	for _, sg := range groups {
		if graph.Gated(sg) {
			v.addService(sg, states[sg.Spec.Service], o.profile)
		}
	}
	v.blockBaseGang()
	return v
}

// missingGroups says that a service with replicas has no scaling group yet: the cache may lag behind the graph controller.
func missingGroups(o observed) bool {
	have := map[string]bool{}
	for _, sg := range o.groups {
		have[sg.Spec.Service] = true
	}
	for i := range o.dgd.Spec.Components {
		if c := &o.dgd.Spec.Components[i]; !have[c.Name] && (c.Replicas == nil || *c.Replicas > 0) {
			return true
		}
	}
	return false
}

func podsByGroup(pods []*corev1.Pod) map[string][]*corev1.Pod {
	out := map[string][]*corev1.Pod{}
	for _, pod := range pods {
		if _, uid, ok := graph.GroupOf(pod); ok {
			out[string(uid)] = append(out[string(uid)], pod)
		}
	}
	return out
}

// setConstraint takes the graph's own constraint from the first group that carries one: they all froze the same.
func (v *view) setConstraint(groups []*trellisv1alpha1.ScalingGroup) {
	for _, sg := range groups {
		t := sg.Spec.Topology
		if t == nil {
			continue
		}
		v.graph.Levels = LevelsOf(t)
		v.graph.NodeSelector = t.NodeSelector
		v.graph.Required = v.graph.Levels.Index(t.GraphPackDomain)
		v.graph.Preferred = v.graph.Levels.Index(t.GraphPreferredPackDomain)
		return
	}
}

// LevelsOf returns the frozen levels in the planner's terms.
func LevelsOf(t *trellisv1alpha1.ResolvedTopology) topology.Levels {
	levels := make(topology.Levels, 0, len(t.Levels))
	for _, level := range t.Levels {
		levels = append(levels, topology.Level{Domain: level.Domain, Key: level.Key})
	}
	return levels
}

// anchorGraph reads the graph domain from the path pinned on living members (docs/placement.md#which-domain).
func (v *view) anchorGraph(states map[string][]replicaState) {
	if v.graph.Required == topology.NoLevel {
		return
	}
	for _, service := range sortedKeys(states) {
		for _, state := range states[service] {
			if len(state.open) > 0 && len(state.path) > v.graph.Required {
				v.graph.Anchor = state.path.Truncate(v.graph.Required)
				return
			}
		}
	}
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

func (v *view) addService(sg *trellisv1alpha1.ScalingGroup, states []replicaState, profile *grovev1alpha1.ClusterTopology) {
	service := placement.Service{
		Name: sg.Spec.Service, Multinode: sg.Spec.Multinode,
		Required: topology.NoLevel, Preferred: topology.NoLevel, MinAvailable: int(graph.MinAvailable(sg)),
	}
	if t := sg.Spec.Topology; t != nil {
		service.Required = v.graph.Levels.Index(t.PackDomain)
		service.Preferred = v.graph.Levels.Index(t.PreferredPackDomain)
	}
	for _, state := range states {
		if len(state.open) == 0 {
			continue
		}
		service.InUse = append(service.InUse, state.path)
		if !service.Multinode && service.Required != topology.NoLevel && service.Anchor == nil && len(state.path) > service.Required {
			service.Anchor = state.path.Truncate(service.Required)
		}
	}
	about := &groupView{sg: sg, hints: hintsOf(sg), lost: lostLevel(sg.Spec.Topology, profile), states: states, wanted: map[string]*topology.Shape{}, ahead: lookAhead}
	for _, state := range states {
		if !v.surplus[replicaKey{service.Name, state.ordinal}] {
			v.wanted++
		}
		v.addReplica(about, &service, state)
	}
	if service.Placed == 0 && len(service.Waiting) < service.MinAvailable && slices.ContainsFunc(states, replicaState.replaced) {
		v.replacing[service.Name] = true
	}
	v.graph.Services = append(v.graph.Services, service)
}

// groupView is what all replicas of one scaling group have in common.
type groupView struct {
	sg     *trellisv1alpha1.ScalingGroup
	hints  map[int32]topology.Path
	lost   lostLevels
	states []replicaState
	// wanted are the shapes of pods that are still to be made, by role.
	wanted map[string]*topology.Shape
	// ahead is how many further pods that are still to be made the plan reckons with.
	ahead int
}

func hintsOf(sg *trellisv1alpha1.ScalingGroup) map[int32]topology.Path {
	hints := map[int32]topology.Path{}
	for _, p := range sg.Status.Placements {
		hints[p.Replica] = parsePath(p.Domain)
	}
	return hints
}

// parsePath reads what Path.String wrote. Label values hold no slash.
func parsePath(s string) topology.Path {
	if s == "" {
		return nil
	}
	return strings.Split(s, "/")
}

// blockBaseGang: the base gang goes together, so one blocked service holds all of them (docs/placement.md#how-much-begins-together).
func (v *view) blockBaseGang() {
	if v.graph.Required == topology.NoLevel || v.graph.Anchor != nil || len(v.blocked) == 0 {
		return
	}
	for i := range v.graph.Services {
		service := &v.graph.Services[i]
		for _, replica := range service.Waiting {
			v.blocked = append(v.blocked, Waiting{
				Service: service.Name, Ordinal: replica.Ordinal, Code: placement.CodeBaseGangWaits,
				Message: "waits for the rest of its graph, with which it is placed together: " + v.blocked[0].Message,
			})
		}
		service.Waiting = nil
	}
}
