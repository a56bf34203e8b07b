// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package whatif

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/gpus"
	"github.com/trellis-k8s/trellis/internal/placement"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/repack"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// Unblocking is the answer of [Planner.Moves].
type Unblocking struct {
	repack.Result
	// Gang is what messages call the first gang that waits, and Levels those that its domains are made of.
	Gang   string
	Levels topology.Levels
}

// Priority is that of the pods that the operator would place; 0 when there are none.
func (g *Plan) Priority() int32 {
	if g.request == nil {
		return 0
	}
	return g.request.asked.Graph.Priority
}

// Moves finds the cheapest moves of replicas that free a place for the first gang of a plan that has none. It returns nil when no gang
// waits for capacity, or when moves are not looked for: components of the deployment are placed by different topologies. It is asked before
// the plan is rolled back, and moves nothing.
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
	return &Unblocking{
		Gang: refused.Group.Name, Levels: demand.Levels,
		Result: repack.Find(place, repack.Gang{Refused: *refused, Priority: demand.Priority}, p.movable(place), limits),
	}
}

// Free finds moves after which so many domains of a level have no pod that uses GPUs; see [repack.Free].
func (p *Planner) Free(levels topology.Levels, nodeSelector map[string]string, level, domains int, limits repack.Limits) repack.Freed {
	place := repack.Place{Cluster: p.cluster, Levels: levels, NodeSelector: nodeSelector}
	replicas := p.movable(place)
	return repack.Free(place, level, domains, p.hosts(replicas), replicas, limits)
}

// hosts are the nodes with GPUs, and those on which others than the replicas use some.
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

// movable are the running replicas of deployments whose annotation allows moves, as far as a plan in this place can place them again.
func (p *Planner) movable(place repack.Place) []repack.Replica {
	var out []repack.Replica
	devices := p.devices()
	for _, dgd := range inOrder(p.world.Graphs, byName) {
		if dgd.Annotations[render.AnnotationMayMove] != "true" || dgd.DeletionTimestamp != nil {
			continue
		}
		r, err := p.request(dgd)
		if err != nil {
			continue // its pods are created by another provider, or the deployment is not valid
		}
		pods := podsByReplica(r.existing)
		for _, sg := range inOrder(r.observation.Groups, byComponent) {
			if !render.Gated(sg) || render.Oversized(sg) || !place.SameTopology(topologyOf(sg)) {
				continue
			}
			for _, ordinal := range gang.Ordinals(sg, groupPods(sg, r.existing)) {
				if one := p.replica(sg, ordinal, pods[replicaKey{sg.Name, ordinal}], devices); one != nil {
					out = append(out, *one)
				}
			}
		}
	}
	return out
}

func byName(a, b *nvidiav1beta1.DynamoGraphDeployment) int {
	return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
}

// topologyOf is what the replicas of a group are placed by.
func topologyOf(sg *trellisv1alpha1.ScalingGroup) (topology.Levels, map[string]string) {
	if t := sg.Spec.Topology; t != nil {
		return gang.LevelsOf(t), t.NodeSelector
	}
	return nil, nil
}

// replica is one that runs and may move; nil when it does not run entirely, or when its GPUs cannot be counted.
func (p *Planner) replica(sg *trellisv1alpha1.ScalingGroup, ordinal int, pods []*corev1.Pod, devices devicesOf) *repack.Replica {
	if len(pods) == 0 || len(pods) < render.ReplicaSize(sg, pods[0]) || len(pods) != int(render.PodsPerReplica(sg)) {
		return nil
	}
	out := &repack.Replica{Namespace: sg.Namespace, Graph: sg.Spec.Graph, Component: sg.Spec.Service, Ordinal: ordinal}
	for i, pod := range pods {
		id := topology.PodID(pod)
		node, bound := p.cluster.Bound(id)
		n, known := gpusOf(pod, devices)
		if !bound || !known || leaving(pod) {
			return nil
		}
		priority := topology.PriorityOf(p.ranked(pod))
		if i == 0 || priority > out.Priority {
			out.Priority = priority
		}
		if made := pod.CreationTimestamp.Time; made.After(out.Created) {
			out.Created = made
		}
		out.Pods = append(out.Pods, repack.Pod{ID: id, Node: node, GPUs: n, Requests: topology.ShapeOf(pod).Requests()})
	}
	group, found := p.successor(sg, ordinal, out)
	if !found {
		return nil
	}
	out.Group = group
	return out
}

// successor is the replica as it is placed again: in the domain of its graph, and in those that rules about several replicas tie it to.
func (p *Planner) successor(sg *trellisv1alpha1.ScalingGroup, ordinal int, r *repack.Replica) (*placement.Group, bool) {
	g := &placement.Group{Required: topology.NoLevel, Preferred: topology.NoLevel, Apart: render.DistinctHosts(sg)}
	if t := sg.Spec.Topology; t != nil {
		levels := gang.LevelsOf(t)
		required, tied := levels.Index(t.PackDomain), max(levels.Index(t.GraphPackDomain), levels.Index(t.SpreadDomain))
		if gang.RoleOf(sg) != placement.NoRole {
			tied = max(tied, levels.Index(t.KVTransferDomain))
		}
		if sg.Spec.Multinode {
			g.Required = required
		} else {
			tied = max(tied, required) // single-node replicas share their domain
		}
		if tied != topology.NoLevel {
			path := levels.PathOf(p.cluster.NodeLabels(r.Pods[0].Node)).Truncate(tied)
			if path.Level() < tied {
				return nil, false
			}
			g.Within = path
		}
	}
	build := render.NewBuilder(sg)
	for index := range render.PodsPerReplica(sg) {
		pod := p.admitted(withoutForeignGates(build.Pod(int32(ordinal), index)))
		g.Pods = append(g.Pods, placement.Pod{
			ID: fmt.Sprintf("move/%s/%s", pod.Namespace, pod.Name), Name: pod.Name, Shape: topology.ShapeOf(pod),
		})
	}
	return g, true
}

// devicesOf are the claims of devices by namespace.
type devicesOf struct {
	classes map[string]*resourcev1.DeviceClass
	spaces  map[string]gpus.Devices
}

// devices sorts the claims of the world.
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

// gpusOf counts the GPUs of a pod; false when they cannot be counted.
func gpusOf(pod *corev1.Pod, devices devicesOf) (int64, bool) {
	shape, err := gpus.ShapeOf([]gpus.Pods{{Spec: &pod.Spec, Count: 1}}, devices.in(pod.Namespace))
	return shape.PerReplica, err == nil
}
