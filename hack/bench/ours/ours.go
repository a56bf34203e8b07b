// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package ours runs the planner of this repository.
package ours

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/trellis-k8s/trellis/hack/bench/hall"
	"github.com/trellis-k8s/trellis/internal/placement"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// Planner is a hall's cluster cache with the planner, as in the operator's scheduling loop.
type Planner struct {
	Cluster *topology.Cluster
	levels  topology.Levels
	shapes  map[int]*topology.Shape
}

// New returns a planner with a hall's nodes and bound pods.
func New(nodes []*corev1.Node, bound []*corev1.Pod) *Planner {
	p := &Planner{Cluster: topology.NewCluster(), shapes: map[int]*topology.Shape{}}
	for _, l := range hall.Levels {
		p.levels = append(p.levels, topology.Level{Domain: l.Name(), Key: l.Key()})
	}
	for _, n := range nodes {
		p.Cluster.SetNode(n)
	}
	for _, pod := range bound {
		p.Cluster.SetPod(pod)
	}
	return p
}

// Graph converts an ask for the planner: a deployment whose one multinode service has one replica per gang.
func (p *Planner) Graph(a hall.Ask) placement.Demand {
	shape, ok := p.shapes[a.GPUs]
	if !ok {
		shape = topology.ShapeOf(hall.Pod("", a.GPUs, ""))
		p.shapes[a.GPUs] = shape
	}
	s := placement.Component{Name: "worker", Multinode: true, Required: int(a.Each), Preferred: topology.NoLevel}
	for g := range a.Gangs {
		r := placement.Replica{Ordinal: g}
		for i := range a.Pods {
			id := PodID(a.Name, g, i)
			r.Pods = append(r.Pods, placement.Pod{ID: id, Name: id, Shape: shape})
		}
		s.Waiting = append(s.Waiting, r)
	}
	return placement.Demand{
		Name: a.Name, Levels: p.levels, Required: int(a.Whole), Preferred: topology.NoLevel, Components: []placement.Component{s},
	}
}

// PodID returns the ID of a pod of an ask.
func PodID(ask string, gang, pod int) string { return fmt.Sprintf("%s-%d-%d", ask, gang, pod) }

// Plan places a graph as the operator does: its reservations stay.
func (p *Planner) Plan(g placement.Demand) placement.Result {
	return placement.PlanGraph(p.Cluster, g, placement.Options{})
}

// Place places an ask as a unit, or changes nothing and returns why.
func (p *Planner) Place(a hall.Ask) (hall.Answer, error) {
	p.Cluster.Begin()
	r := p.Plan(p.Graph(a))
	if !r.Placed() {
		why := Why(r)
		p.Cluster.Rollback()
		return nil, why
	}
	p.Cluster.Commit()
	return AnswerOf(r), nil
}

// Why returns the first refusal in a result.
func Why(r placement.Result) error {
	for _, one := range r.Replicas {
		if one.Refusal != nil {
			return hall.Refused(one.Refusal.Message())
		}
	}
	return nil
}

// AnswerOf converts a result without refusals into the common form.
func AnswerOf(r placement.Result) hall.Answer {
	answer := make(hall.Answer, 0, len(r.Replicas))
	for _, one := range r.Replicas {
		hosts := make([]string, 0, len(one.Pods))
		for _, pod := range one.Pods {
			hosts = append(hosts, pod.Node)
		}
		answer = append(answer, hosts)
	}
	return answer
}

// PlaceTogether places several asks of one gang each as the services of one deployment that must share a domain of a level.
func (p *Planner) PlaceTogether(level hall.Level, asks []hall.Ask) ([]hall.Answer, error) {
	g := placement.Demand{Name: "together", Levels: p.levels, Required: int(level), Preferred: topology.NoLevel}
	for _, a := range asks {
		s := p.Graph(a).Components[0]
		s.Name = a.Name
		g.Components = append(g.Components, s)
	}
	r := p.Plan(g)
	if !r.Placed() {
		return nil, Why(r)
	}
	all, answers := AnswerOf(r), make([]hall.Answer, len(asks))
	for i, one := range r.Replicas {
		for k, a := range asks {
			if a.Name == one.Component {
				answers[k] = hall.Answer{all[i]}
			}
		}
	}
	return answers, nil
}
