// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/cli/text"
	"github.com/trellis-k8s/trellis/internal/cli/tree"
	"github.com/trellis-k8s/trellis/internal/graph"
	"github.com/trellis-k8s/trellis/internal/scheduler"
	"github.com/trellis-k8s/trellis/internal/whatif"
)

// Text draws the cluster as it would be, and below it what came of each deployment.
func (r *Report) Text() string {
	sections := []string{r.drawing(), r.summary(), r.preemptions(), r.reasons(), r.verdict()}
	sections = slices.DeleteFunc(sections, func(s string) bool { return s == "" })
	return strings.Join(sections, "\n")
}

// drawing is the tree that kubectl trellis tree would show, were the plan carried out.
func (r *Report) drawing() string {
	s := tree.Snapshot{}
	for _, n := range r.in.world.Nodes {
		s.Nodes = append(s.Nodes, judged(*n))
	}
	for _, ct := range r.in.world.Topologies {
		s.Topologies = append(s.Topologies, *ct)
	}
	planned := map[string]bool{}
	for i, w := range r.in.plan {
		s.Graphs = append(s.Graphs, *w.dgd)
		for _, sg := range r.plans[i].Groups {
			s.Groups = append(s.Groups, *sg)
		}
		for _, pod := range plannedPods(&r.plans[i]) {
			planned[pod.Namespace+"/"+pod.Name] = true
			s.Pods = append(s.Pods, *pod)
		}
	}
	for _, pod := range r.in.world.Pods {
		ended := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
		if !planned[pod.Namespace+"/"+pod.Name] && !ended {
			s.Pods = append(s.Pods, *pod)
		}
	}
	return tree.Build(&s).Drawings()
}

// judged says of a node about which nobody says whether it is ready what the planner takes it for.
func judged(n corev1.Node) corev1.Node {
	if !slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == corev1.NodeReady }) {
		n.Status.Conditions = append(slices.Clone(n.Status.Conditions), corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionTrue})
	}
	return n
}

// plannedPods are the pods that have no node yet, on the node they would get.
func plannedPods(g *whatif.Graph) []*corev1.Pod {
	groups := map[string]*trellisv1alpha1.ScalingGroup{}
	for _, sg := range g.Groups {
		groups[sg.Spec.Service] = sg
	}
	existing := map[string]*corev1.Pod{}
	for _, pod := range g.Exist {
		existing[pod.Name] = pod
	}
	var out []*corev1.Pod
	for _, replica := range g.Replicas {
		nodes := map[string]string{}
		for _, pod := range replica.Pods {
			nodes[pod.Name] = pod.Node
		}
		sg := groups[replica.Service]
		if graph.Oversized(sg) {
			continue
		}
		build := graph.NewBuilder(sg)
		for index := range graph.PodsPerReplica(sg) {
			pod := build.Pod(int32(replica.Ordinal), index)
			if old := existing[pod.Name]; old != nil {
				pod = old.DeepCopy()
			}
			if pod.Spec.NodeName == "" && nodes[pod.Name] != "" {
				pod.Spec.NodeName = nodes[pod.Name]
				pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
				out = append(out, pod)
			}
		}
	}
	return out
}

func (r *Report) summary() string {
	rows := [][]string{{"GRAPH", "REPLICAS", "DOMAIN", "SCORE"}}
	for i := range r.Graphs {
		g := &r.Graphs[i]
		running, placed := 0, 0
		for _, replica := range r.plans[i].Replicas {
			if replica.Running {
				running++
			}
			if replica.Reason == nil {
				placed++
			}
		}
		replicas := fmt.Sprintf("%d of %d placed", placed, len(g.Replicas))
		if running > 0 {
			replicas += fmt.Sprintf(", %d of them already", running)
		}
		domain := r.plans[i].Domain.String()
		if domain == "" {
			domain = "-"
		}
		score := "-"
		if g.Score > 0 {
			score = fmt.Sprintf("%.2f", g.Score)
		}
		rows = append(rows, []string{g.Namespace + "/" + g.Name, replicas, domain, score})
	}
	return text.Table(rows, 2)
}

// preemptions tells who would have to make room.
func (r *Report) preemptions() string {
	var lines []string
	for i := range r.plans {
		g := &r.plans[i]
		for _, replica := range g.Replicas {
			if p := replica.Preempts; p != nil {
				lines = append(lines, text.Wrap(fmt.Sprintf("%s/%s: %s-%d takes the room of pods of lower priority: %d of %s",
					g.Namespace, g.Name, replica.Service, replica.Ordinal, p.Pods, scheduler.Victims(p)), "  "))
			}
		}
	}
	if len(lines) == 0 {
		return ""
	}
	if more := len(lines) - maxReasons; more > 0 {
		lines = append(lines[:maxReasons], fmt.Sprintf("and %d more", more))
	}
	return "PREEMPTS\n" + strings.Join(lines, "\n") + "\n"
}

// maxReasons bounds how many different reasons are told.
const maxReasons = 20

// reasons tells why replicas have no place, those with the same words together.
func (r *Report) reasons() string {
	type said struct {
		graph, service, reason, message string
	}
	var order []said
	ordinals := map[said][]int{}
	for i := range r.Graphs {
		g := &r.Graphs[i]
		for _, reason := range g.Reasons {
			key := said{g.Namespace + "/" + g.Name, reason.Service, reason.Reason, reason.Message}
			if ordinals[key] == nil {
				order = append(order, key)
			}
			ordinals[key] = append(ordinals[key], reason.Replica)
		}
	}
	if len(order) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("NOT PLACED\n")
	for i, key := range order {
		if i == maxReasons {
			fmt.Fprintf(&b, "and %d more; -o json has all of them\n", len(order)-i)
			break
		}
		head := fmt.Sprintf("%s: %s-%s", key.graph, key.service, text.Ranges(ordinals[key]))
		b.WriteString(text.Wrap(head, "  ") + "\n" + text.Wrap("    "+key.reason+": "+key.message, "    ") + "\n")
	}
	return b.String()
}

// verdict is the last line.
func (r *Report) verdict() string {
	placed := 0
	for i := range r.Graphs {
		if r.Graphs[i].Placed {
			placed++
		}
	}
	if placed == len(r.Graphs) {
		return "Everything has a place.\n"
	}
	return fmt.Sprintf("%d of %d graphs would be placed whole.\n", placed, len(r.Graphs))
}
