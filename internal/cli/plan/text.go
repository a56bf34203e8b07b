// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/trellis-k8s/trellis/internal/cli/text"
	"github.com/trellis-k8s/trellis/internal/cli/tree"
	"github.com/trellis-k8s/trellis/internal/gang"
)

// Text draws the cluster as it would be, and below it what came of each deployment.
func (r *Report) Text() string {
	sections := []string{r.drawing(), r.summary(), r.preemptions(), r.reasons(), r.result()}
	sections = slices.DeleteFunc(sections, func(s string) bool { return s == "" })
	return strings.Join(sections, "\n")
}

// drawing is the tree that kubectl trellis tree would show of the planned deployments, were the plan carried out.
func (r *Report) drawing() string {
	world := r.World()
	world.Graphs, world.Groups = nil, nil
	for i, w := range r.in.plan {
		world.Graphs, world.Groups = append(world.Graphs, w.dgd), append(world.Groups, r.Plans[i].Groups...)
	}
	return tree.Build(tree.Of(&world)).Drawings()
}

func (r *Report) summary() string {
	rows := [][]string{{"GRAPH", "REPLICAS", "DOMAIN", "SCORE"}}
	for i := range r.Graphs {
		g := &r.Graphs[i]
		running, placed := 0, 0
		for _, replica := range r.Plans[i].Replicas {
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
		domain := r.Plans[i].Domain.String()
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

// preemptions tells who would have to free capacity.
func (r *Report) preemptions() string {
	var lines []string
	for i := range r.Plans {
		g := &r.Plans[i]
		for _, replica := range g.Replicas {
			if p := replica.Preempts; p != nil {
				lines = append(lines, text.Wrap(fmt.Sprintf("%s/%s: %s-%d takes the capacity of pods of lower priority: %d of %s",
					g.Namespace, g.Name, replica.Service, replica.Ordinal, p.Pods, gang.Victims(p)), "  "))
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

// maxReasons bounds how many different reasons are shown.
const maxReasons = 20

// reasons tells why replicas are not placed, those with the same words together.
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

// result is the last line.
func (r *Report) result() string {
	placed := 0
	for i := range r.Graphs {
		if r.Graphs[i].Placed {
			placed++
		}
	}
	if placed == len(r.Graphs) {
		return "Everything is placed.\n"
	}
	return fmt.Sprintf("%d of %d graphs would be placed whole.\n", placed, len(r.Graphs))
}
