// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/trellis-k8s/trellis/internal/cli"
	"github.com/trellis-k8s/trellis/internal/cli/text"
	"github.com/trellis-k8s/trellis/internal/cli/tree"
	"github.com/trellis-k8s/trellis/internal/gang"
)

// Text renders the planned cluster, and below it the result of each deployment.
func (r *Plans) Text(p text.Page) string {
	sections := []string{r.drawing(p), r.summary(p), r.transfers(p), r.nvlink(p), r.preemptions(p), r.reasons(p), r.result()}
	sections = slices.DeleteFunc(sections, func(s string) bool { return s == "" })
	return strings.Join(sections, "\n")
}

// drawing returns the tree that kubectl trellis tree would show for the planned deployments after the plan.
func (r *Plans) drawing(p text.Page) string {
	world := r.World()
	world.Graphs = nil
	for _, w := range r.in.plan {
		world.Graphs = append(world.Graphs, w.dgd)
	}
	return tree.Build(tree.Of(&world)).Drawings(p)
}

func (r *Plans) summary(p text.Page) string {
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
	return p.Table(rows)
}

// transfers describes how prefill and decode replicas would share domains.
func (r *Plans) transfers(page text.Page) string {
	var lines []string
	for i := range r.Plans {
		if g := &r.Plans[i]; g.Transfer != nil {
			lines = append(lines, page.Wrap(g.Namespace+"/"+g.Name+": "+g.Transfer.Text(), "  "))
		}
	}
	if len(lines) == 0 {
		return ""
	}
	return page.Head("KV TRANSFER") + "\n" + strings.Join(lines, "\n") + "\n"
}

// preemptions names the pods that would be preempted.
func (r *Plans) preemptions(page text.Page) string {
	var lines []string
	for i := range r.Plans {
		g := &r.Plans[i]
		for _, replica := range g.Replicas {
			if p := replica.Preempts; p != nil {
				lines = append(lines, page.Wrap(fmt.Sprintf("%s/%s: %s-%d takes the capacity of pods of lower priority: %d of %s",
					g.Namespace, g.Name, replica.Component, replica.Ordinal, p.Pods, gang.Victims(p)), "  "))
			}
		}
	}
	if len(lines) == 0 {
		return ""
	}
	if more := len(lines) - maxReasons; more > 0 && !page.Wide {
		lines = append(lines[:maxReasons], fmt.Sprintf("and %d more", more))
	}
	return page.Head("PREEMPTS") + "\n" + strings.Join(lines, "\n") + "\n"
}

// maxReasons is the maximum number of distinct reasons that are shown.
const maxReasons = 20

// reasons explains why replicas are not placed. Replicas with the same message share a reason.
func (r *Plans) reasons(p text.Page) string {
	type said struct {
		graph, component, reason, message string
	}
	var order []said
	ordinals := map[said][]int{}
	for i := range r.Graphs {
		g := &r.Graphs[i]
		for _, reason := range g.Reasons {
			key := said{g.Namespace + "/" + g.Name, reason.Component, reason.Reason, reason.Message}
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
	b.WriteString(p.Head("NOT PLACED") + "\n")
	for i, key := range order {
		if i == maxReasons && !p.Wide {
			fmt.Fprintf(&b, "and %d more; -o json has all of them\n", len(order)-i)
			break
		}
		head := fmt.Sprintf("%s: %s-%s", key.graph, key.component, text.Ranges(ordinals[key]))
		b.WriteString(p.Wrap(head, "  ") + "\n" + p.Wrap("    "+p.Warn(key.reason)+": "+key.message, "    ") + "\n")
	}
	return b.String()
}

// Refs returns the deployments, in the order of the plan.
func (r *Plans) Refs() []cli.Ref {
	refs := make([]cli.Ref, 0, len(r.Graphs))
	for i := range r.Graphs {
		refs = append(refs, cli.Ref{Kind: cli.Graph.Name, Group: cli.Graph.Group, Name: r.Graphs[i].Name})
	}
	return refs
}

// result returns the last line of the report: that everything is placed, or how many graphs are placed completely.
func (r *Plans) result() string {
	placed := 0
	for i := range r.Graphs {
		if r.Graphs[i].Placed {
			placed++
		}
	}
	if placed == len(r.Graphs) {
		return "Everything is placed.\n"
	}
	return fmt.Sprintf("%d of %d graphs would be placed completely.\n", placed, len(r.Graphs))
}
