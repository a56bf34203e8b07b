// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package maps

import (
	"io"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/trellis-k8s/trellis/internal/cli/explain"
	"github.com/trellis-k8s/trellis/internal/cli/live"
	"github.com/trellis-k8s/trellis/internal/cli/plan"
	"github.com/trellis-k8s/trellis/internal/cli/tree"
	"github.com/trellis-k8s/trellis/internal/whatif"
)

// Source is the input of a map.
type Source struct {
	plan.Input
	// Files: files were read as well, so there may be a plan.
	Files bool
	// Topology to draw; empty for all.
	Topology string
	// NodesHidden and OthersHidden: the user may not list nodes, or the pods of other namespaces, so nothing is planned.
	NodesHidden, OthersHidden bool
	// Taken is the time at which the cluster was read; zero if no cluster was read.
	Taken time.Time
	// Operator is the state of the operator; nil if it is running.
	Operator *live.Heartbeat
}

// Build makes the map. It plans the deployments in files. It also plans the waiting deployments of the cluster again, and drops these
// plans. The error joins the errors in files. Build writes the warnings of admission to warnings.
func Build(s *Source, warnings io.Writer) (*Map, error) {
	m := &Map{Waiting: []GraphCause{}}
	if !s.Taken.IsZero() {
		m.Taken = &s.Taken
	}
	planner := s.Planner()
	report, err := plan.Execute(s.Input, planner, warnings)
	if err != nil {
		return nil, err
	}
	world := s.World()
	scene := tree.Counted(&world, planner)
	if s.Files {
		world = report.World()
		scene = tree.Of(&world)
	}
	scene.NodesHidden, scene.OthersHidden = s.NodesHidden, s.OthersHidden
	if err := scene.Choose(s.Topology); err != nil {
		return nil, err
	}
	m.Overview = tree.Whole(scene)
	if m.Operator = s.Operator; s.Operator != nil && s.Operator.Silent {
		m.Notes = slices.Insert(m.Notes, 0, s.Operator.Message)
	}
	m.Pod = podSize(&m.Overview)
	m.overlay(planner, &report)
	if s.NodesHidden || s.OthersHidden {
		planner = nil
	}
	m.explain(planner, &world)
	for i := range m.Trees {
		m.Sums = append(m.Sums, m.sums(&m.Trees[i]))
	}
	return m, nil
}

// overlay marks the pods that the plans have placed, and lists the placed and the refused replicas.
func (m *Map) overlay(planner *whatif.Planner, report *plan.Plans) {
	planned := map[types.NamespacedName]bool{}
	for i := range report.Plans {
		p := &report.Plans[i]
		for _, pod := range p.PlannedPods() {
			planned[types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}] = true
		}
		one := Planned{Namespace: p.Namespace, Name: p.Name, Domain: p.Domain.String(), Replicas: len(p.Replicas), Score: p.Score}
		for _, r := range p.Replicas {
			if r.Reason == nil {
				one.Placed++
			}
		}
		m.Planned = append(m.Planned, one)
		g := m.graph(p.Namespace, p.Name)
		for _, w := range explain.CausesOf(planner, *p, maxBlockers) {
			m.Waiting = append(m.Waiting, GraphCause{Namespace: p.Namespace, Graph: p.Name, Tree: g.Tree, Planned: true, Cause: w})
		}
		g.Waiting = nil
	}
	mark := func(pods []tree.Pod) {
		for i := range pods {
			if planned[types.NamespacedName{Namespace: pods[i].Namespace, Name: pods[i].Name}] {
				pods[i].State = StatePlanned
			}
		}
	}
	for _, t := range m.Trees {
		hosts(t.Cluster, func(d *tree.Domain) {
			mark(d.Pods)
			mark(d.Foreign)
		})
	}
}

// graph returns the drawn graph with this name. The graphs of a plan are always drawn.
func (m *Map) graph(namespace, name string) *tree.Deployment {
	for i := range m.Graphs {
		if m.Graphs[i].Namespace == namespace && m.Graphs[i].Name == name {
			return &m.Graphs[i]
		}
	}
	return &tree.Deployment{}
}

// podSize returns the amount of the resource that the map assumes for each pod of a gang.
func podSize(r *tree.Overview) int64 {
	var asked, host int64
	see := func(pods []tree.Pod) {
		for _, p := range pods {
			asked = max(asked, p.Amount)
		}
	}
	for _, t := range r.Trees {
		hosts(t.Cluster, func(d *tree.Domain) {
			see(d.Pods)
			if d.Amount != nil {
				host = max(host, d.Total)
			}
		})
	}
	for _, g := range r.Graphs {
		if g.Waiting != nil {
			see(g.Waiting.Pods)
		}
	}
	if asked > 0 && asked <= host {
		return asked
	}
	return host
}
