// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package whatif

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/gpus"
	"github.com/trellis-k8s/trellis/internal/placement"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/repack"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// Unblocking is the result of [Planner.Moves].
type Unblocking struct {
	repack.Result
	// Gang is the name of the first waiting gang, as in messages. Levels are the levels of the gang's domains.
	Gang   string
	Levels topology.Levels
}

// Priority returns the priority of the pods that the operator would place; 0 if there are none.
func (g *Plan) Priority() int32 {
	if g.request == nil {
		return 0
	}
	return g.request.asked.Graph.Priority
}

// Moves finds the cheapest moves of replicas that free a place for the first waiting gang of a plan. It returns nil if no gang waits for
// capacity. It also returns nil if the components of the deployment have different topologies, because the search does not support that.
// Call it before the plan is rolled back. It changes nothing.
func (p *Planner) Moves(g Plan, limits repack.Limits) *Unblocking {
	if g.request == nil {
		return nil
	}
	demand := g.request.asked.Graph
	refused := placement.FirstRefused(p.cluster, demand, &g.request.result, p.options)
	if refused == nil {
		return nil
	}
	place := repack.Place{Cluster: p.cluster, Levels: demand.Levels, NodeSelector: demand.NodeSelector}
	limits.Rest = p.world.Rest
	replicas := p.movable(place, g.request.observation.DGD, gang.GPUsWithoutClaims)
	return &Unblocking{
		Gang: refused.Group.Name, Levels: demand.Levels,
		Result: repack.Find(place, repack.Gang{Refused: *refused, Priority: demand.Priority}, replicas, limits),
	}
}

// Free finds moves after which the given number of the level's domains have no pods that use GPUs; see [repack.Free].
func (p *Planner) Free(levels topology.Levels, nodeSelector map[string]string, level, domains int, limits repack.Limits) repack.Freed {
	place := repack.Place{Cluster: p.cluster, Levels: levels, NodeSelector: nodeSelector}
	devices := p.devices()
	replicas := p.movable(place, nil, func(pod *corev1.Pod) (int64, bool) { return gpusOf(pod, devices) })
	limits.Rest = p.world.Rest
	return repack.Free(place, level, domains, p.hosts(replicas), replicas, limits)
}

// OnGPUs returns the pods that use GPUs on the given nodes. A pod whose use of GPUs is unknown counts as one that does.
func (p *Planner) OnGPUs(nodes []string) []*corev1.Pod {
	devices := p.devices()
	var out []*corev1.Pod
	for _, pod := range p.world.Pods {
		if node, bound := p.cluster.Bound(topology.PodID(pod)); bound && slices.Contains(nodes, node) {
			if n, known := gpusOf(pod, devices); n > 0 || !known {
				out = append(out, pod)
			}
		}
	}
	return out
}

// hosts returns the nodes with GPUs, and the nodes on which pods that belong to none of the replicas use GPUs.
func (p *Planner) hosts(replicas []repack.Replica) repack.Hosts {
	h := repack.Hosts{Offer: map[string]bool{}, Busy: map[string]bool{}}
	for _, node := range p.world.Nodes {
		for name, amount := range node.Status.Allocatable {
			h.Offer[node.Name] = h.Offer[node.Name] || gpus.IsGPU(string(name)) && !amount.IsZero()
		}
	}
	movable := map[string]bool{}
	for i := range replicas {
		for _, pod := range replicas[i].Pods {
			movable[pod.ID] = true
		}
	}
	devices := p.devices()
	for _, pod := range p.world.Pods {
		id := topology.PodID(pod)
		if node, bound := p.cluster.Bound(id); bound && !movable[id] {
			n, known := gpusOf(pod, devices)
			h.Busy[node] = h.Busy[node] || n > 0 || !known
		}
	}
	p.cluster.Reservations(func(_, node string, s *topology.Shape) {
		h.Busy[node] = h.Busy[node] || slices.ContainsFunc(s.Requests(), func(r topology.Request) bool { return gpus.IsGPU(r.Name) })
	})
	for node, busy := range h.Busy {
		if !busy {
			delete(h.Busy, node)
		}
	}
	return h
}

// movable returns the running replicas of other deployments whose annotation allows moves. It omits replicas that could not be placed again
// in the given topology.
func (p *Planner) movable(
	place repack.Place, except *nvidiav1beta1.DynamoGraphDeployment, count func(*corev1.Pod) (int64, bool),
) []repack.Replica {
	var out []repack.Replica
	movable := gang.Movable{
		Cluster:  p.cluster,
		Admit:    func(pod *corev1.Pod) *corev1.Pod { return p.admitted(withoutForeignGates(pod)) },
		Priority: func(pod *corev1.Pod) int32 { return topology.PriorityOf(p.ranked(pod)) },
		GPUs:     count,
	}
	for _, dgd := range inOrder(p.world.Graphs, byName) {
		if !render.MayMove(dgd) || except != nil && nameOf(dgd) == nameOf(except) {
			continue
		}
		r, err := p.request(dgd)
		if err != nil {
			continue // its pods are created by another provider, or the deployment is not valid
		}
		for _, sg := range inOrder(r.observation.Groups, byComponent) {
			pods := groupPods(sg, r.existing)
			stored := p.index.groups[nameOf(dgd)][sg.Spec.Component]
			if stored == nil || stored.Spec.Provider == specs.Gates.Name && !gang.Replacing(stored, pods, p.world.Now) {
				out = append(out, movable.Of(sg, pods, &place)...)
			}
		}
	}
	return out
}

func byName(a, b *nvidiav1beta1.DynamoGraphDeployment) int {
	return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
}

// devicesOf holds the DeviceClasses and, by namespace, the device claims.
type devicesOf struct {
	classes map[string]*resourcev1.DeviceClass
	spaces  map[string]gpus.Devices
}

// devices groups the claims of the world by namespace.
func (p *Planner) devices() devicesOf {
	d := devicesOf{classes: map[string]*resourcev1.DeviceClass{}, spaces: map[string]gpus.Devices{}}
	for _, class := range p.world.Devices {
		d.classes[class.Name] = class
	}
	for _, template := range p.world.Claims.Templates {
		d.in(template.Namespace).Templates[template.Name] = &template.Spec.Spec
	}
	for _, claim := range p.world.Claims.Claims {
		d.in(claim.Namespace).Claims[claim.Name] = &claim.Spec
	}
	return d
}

func (d devicesOf) in(namespace string) gpus.Devices {
	space, known := d.spaces[namespace]
	if !known {
		space = gpus.Devices{
			Templates: map[string]*resourcev1.ResourceClaimSpec{}, Claims: map[string]*resourcev1.ResourceClaimSpec{}, Classes: d.classes,
		}
		d.spaces[namespace] = space
	}
	return space
}

// gpusOf counts the GPUs of a pod; false if they cannot be counted.
func gpusOf(pod *corev1.Pod, devices devicesOf) (int64, bool) {
	shape, err := gpus.ShapeOf([]gpus.Pods{{Spec: &pod.Spec, Count: 1}}, devices.in(pod.Namespace))
	return shape.PerReplica, err == nil
}
