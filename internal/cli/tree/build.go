// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package tree

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/cli"
	"github.com/trellis-k8s/trellis/internal/cli/live"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
	"github.com/trellis-k8s/trellis/internal/render"
)

// graphPods is one graph with its scaling groups and pods.
type graphPods struct {
	dgd    *nvidiav1beta1.DynamoGraphDeployment
	groups []*trellisv1alpha1.ScalingGroup
	pods   []memberPod
	// view: the hierarchy in which the graph is placed. in: the hierarchy in which the graph is drawn.
	view, in view
}

// memberPod is a pod of a graph.
type memberPod struct {
	Pod
	object *corev1.Pod
	// node to which the pod is bound, or on which capacity is reserved for the pod; otherwise empty.
	node string
}

// Build makes the report of the domains that hold pods of the graphs. Graphs are sorted by name. Build adds a second or further tree only
// for graphs with pods on hosts that no earlier tree contains.
func Build(s *Scene) Overview {
	r, _ := s.drawn("")
	for _, t := range r.Trees {
		t.Cluster.prune((*Domain).holdsPods, len(t.Levels))
	}
	return r
}

// BuildAs makes the report for a selection of domains. Without graphs, it shows the domains of the cluster. It returns an error if the
// requested level is in no ClusterTopology that could be drawn.
func BuildAs(s *Scene, draw Draw) (Overview, error) {
	r, levels := s.drawn(draw.Level)
	r.folds = draw == Draw{}
	return r, r.cut(draw, levels)
}

// Whole makes the report without omissions: it contains every domain and node, and also pods that belong to no graph and use the counted
// resource. Each graph is in the tree of its topology. Each ClusterTopology without a graph also has a tree. There is at least one tree.
func Whole(s *Scene) Overview {
	graphs := s.sortPods()
	counter := newCounter(s, graphs)
	views := viewsOf(graphs)
	switch {
	case s.Topology == nil:
		views = s.further(views)
	case len(views) == 0:
		views = append(views, current(s.Topology))
	}
	return s.report(graphs, views, counter, true)
}

// drawn makes trees that together contain all hosts to draw. It adds a tree only for hosts outside of all earlier trees. A topology with
// the given level is drawn first. drawn also returns the level names of all hierarchies that could be drawn, including those that it omits.
func (s *Scene) drawn(level string) (Overview, []string) {
	graphs := s.sortPods()
	counter := newCounter(s, graphs)
	views := viewsOf(graphs)
	switch {
	case len(views) > 0:
	case s.Topology != nil:
		views = append(views, current(s.Topology))
	default:
		views = s.further(nil)
	}
	var levels []string
	for _, v := range views {
		levels = append(levels, v.names()...)
	}
	chosen := s.choose(views, graphs, level)
	r := s.report(graphs, chosen, counter, false)
	r.Notes = append(r.Notes, s.undrawn(views, chosen, graphs)...)
	return r, levels
}

// report makes the report, with one tree for each view. With whole, a tree also contains the pods that belong to no graph or to a graph in
// another tree.
func (s *Scene) report(graphs []*graphPods, views []view, counter counter, whole bool) Overview {
	r := Overview{Graphs: []Deployment{}, Resource: counter.resource, Operator: s.Operator}
	for _, g := range graphs {
		d := g.describe()
		d.Tree, d.Transfer = slices.IndexFunc(views, g.in.equal), s.transfer(g)
		r.Graphs = append(r.Graphs, d)
	}
	for _, v := range views {
		r.Trees = append(r.Trees, s.tree(v, graphs, counter, whole))
	}
	r.Notes = s.notes(graphs, counter)
	return r
}

// sortPods assigns scaling groups and pods to their graphs, and sorts graphs, groups and pods.
func (s *Scene) sortPods() []*graphPods {
	var graphs []*graphPods
	byName := map[types.NamespacedName]*graphPods{}
	for _, dgd := range s.Graphs {
		g := &graphPods{dgd: dgd}
		graphs = append(graphs, g)
		byName[types.NamespacedName{Namespace: dgd.Namespace, Name: dgd.Name}] = g
	}
	groups := map[types.NamespacedName]*trellisv1alpha1.ScalingGroup{}
	for _, sg := range s.Groups {
		if g := byName[types.NamespacedName{Namespace: sg.Namespace, Name: sg.Spec.Graph}]; g != nil {
			g.groups = append(g.groups, sg)
			groups[types.NamespacedName{Namespace: sg.Namespace, Name: render.LabelValue(sg.Name)}] = sg
		}
	}
	for _, p := range s.Pods {
		if sg := groups[types.NamespacedName{Namespace: p.Namespace, Name: p.Labels[render.LabelScalingGroup]}]; sg != nil {
			g := byName[types.NamespacedName{Namespace: sg.Namespace, Name: sg.Spec.Graph}]
			g.pods = append(g.pods, s.member(p, sg))
		}
	}
	for _, g := range graphs {
		slices.SortFunc(g.groups, func(a, b *trellisv1alpha1.ScalingGroup) int { return cli.Natural(a.Spec.Component, b.Spec.Component) })
		slices.SortFunc(g.pods, func(a, b memberPod) int { return comparePods(a.Pod, b.Pod) })
		g.view = s.viewOf(g.dgd, g.groups)
		g.in = g.view
	}
	slices.SortFunc(graphs, func(a, b *graphPods) int {
		if c := strings.Compare(a.dgd.Namespace, b.dgd.Namespace); c != 0 {
			return c
		}
		return cli.Natural(a.dgd.Name, b.dgd.Name)
	})
	return graphs
}

func (g *graphPods) describe() Deployment {
	d := Deployment{Namespace: g.dgd.Namespace, Name: g.dgd.Name, Topology: g.view.name, Constraints: constraints(g.groups),
		Waiting: g.waiting()}
	ready, all := g.readyPods()
	d.Ready = meta.IsStatusConditionTrue(g.dgd.Status.Conditions, nvidiav1beta1.ConditionReady) && ready >= all
	if p := g.dgd.Status.Placement; p != nil {
		d.Domain = p.Domain
	}
	return d
}

// waiting explains why pods have no node. The reason is the graph's condition Placed if that condition is False, or else the
// kube-scheduler's message about the first of these pods.
func (g *graphPods) waiting() *Unbound {
	w := &Unbound{}
	var schedulerSays string
	for _, p := range g.pods {
		if p.object.Spec.NodeName != "" {
			continue
		}
		w.Pods = append(w.Pods, p.Pod)
		if schedulerSays == "" {
			schedulerSays = unschedulable(p.object)
		}
	}
	placed := live.Placed(g.dgd)
	switch {
	case len(w.Pods) == 0 && g.outside() != "": // a note reports it
		return g.missing()
	case placed != nil && placed.Status == "False":
		w.Reason, w.Message = placed.Reason, placed.Message
	case schedulerSays != "":
		w.Reason, w.Message = corev1.PodReasonUnschedulable, schedulerSays
	case len(w.Pods) > 0:
		w.Message = "waiting for the scheduler"
	default:
		return g.missing()
	}
	return w
}

// outside returns the reason and message of the condition Placed if it reports pods outside their required domain, otherwise "".
func (g *graphPods) outside() string {
	placed := live.Placed(g.dgd)
	if placed == nil || placed.Status != "False" || !gang.IsOutside(placed.Reason) {
		return ""
	}
	return placed.Reason + ": " + placed.Message
}

// unschedulable returns the kube-scheduler's message about a pod; "" for none.
func unschedulable(pod *corev1.Pod) string {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonUnschedulable {
			return c.Message
		}
	}
	return ""
}

// missing explains, from the condition Ready, why a graph has no pods or too few pods; nil if it has no explanation.
func (g *graphPods) missing() *Unbound {
	ready := meta.FindStatusCondition(g.dgd.Status.Conditions, nvidiav1beta1.ConditionReady)
	there, all := g.there()
	switch {
	case ready == nil && len(g.groups) == 0:
		return &Unbound{Message: "nothing has been created for it yet: the operator has not processed it; is it running?"}
	case ready == nil:
		return nil
	case ready.Status == "False" && len(g.pods) == 0:
		return &Unbound{Reason: ready.Reason, Message: ready.Message}
	case ready.Status == "True" && there < all:
		return &Unbound{Message: fmt.Sprintf("pods are missing that its status counts: %d of %d", all-there, all)}
	}
	return nil
}

// there counts the existing pods that do not terminate, and the expected pods. It considers only groups whose pods Trellis creates.
func (g *graphPods) there() (pods, all int) {
	return g.count(func(p memberPod) bool { return p.State != stateTerminating })
}

// readyPods counts the ready pods, and the expected pods. It considers only groups whose pods Trellis creates.
func (g *graphPods) readyPods() (pods, all int) {
	return g.count(func(p memberPod) bool { return p.State == "" && p.object.Spec.NodeName != "" })
}

func (g *graphPods) count(is func(memberPod) bool) (pods, all int) {
	planned := map[string]bool{}
	for _, sg := range g.groups {
		if specs.Named(sg.Spec.Provider).Planned {
			planned[sg.Spec.Component] = true
			all += int(sg.Spec.Replicas) * int(render.PodsPerReplica(sg))
		}
	}
	for _, p := range g.pods {
		if planned[p.Component] && is(p) {
			pods++
		}
	}
	return pods, all
}
