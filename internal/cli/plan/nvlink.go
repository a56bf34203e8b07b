// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/trellis-k8s/trellis/internal/cli/text"
	"github.com/trellis-k8s/trellis/internal/nvlink"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/whatif"
)

// ComputeDomain is an NVLink domain that pods of a deployment join. Cliques are the planned cliques of these pods.
type ComputeDomain struct {
	Name    string          `json:"name"`
	Cliques []nvlink.Clique `json:"cliques"`
}

// computeDomains returns the ComputeDomains of a planned deployment.
func (r *Plans) computeDomains(g *whatif.Plan) (out []ComputeDomain) {
	at := slices.IndexFunc(r.in.plan, func(w wanted) bool { return w.dgd.Namespace == g.Namespace && w.dgd.Name == g.Name })
	if at < 0 {
		return nil
	}
	dgd, cliques := r.in.plan[at].dgd, r.cliques()
	for _, shared := range slices.Concat(nvlink.SharedBy(dgd, r.in.world.DomainsOf(g.Namespace)), render.ComputeDomainsOf(dgd)) {
		seats := map[string][]nvlink.Seat{} // by replica, if each has its own domain
		for i := range g.Replicas {
			replica := &g.Replicas[i]
			if !slices.ContainsFunc(shared.Components, func(c int) bool { return dgd.Spec.Components[c].Name == replica.Component }) {
				continue
			}
			name, domain := fmt.Sprintf("%s-%d", replica.Component, replica.Ordinal), shared.Domain.Name
			if shared.PerReplica {
				domain += " of " + name
			}
			for _, pod := range replica.Pods {
				if pod.Node != "" {
					seats[domain] = append(seats[domain], nvlink.Seat{Replica: name, Clique: cliques[pod.Node]})
				}
			}
		}
		for _, name := range slices.Sorted(maps.Keys(seats)) {
			out = append(out, ComputeDomain{Name: name, Cliques: nvlink.CliquesOf(seats[name])})
		}
	}
	return out
}

// cliques returns the NVLink cliques of the nodes, by the name of the node.
func (r *Plans) cliques() map[string]string {
	out := map[string]string{}
	for _, node := range r.in.world.Nodes {
		out[node.Name] = node.Labels[nvlink.CliqueLabel]
	}
	return out
}

// nvlink describes the cliques in which the pods of ComputeDomains would be.
func (r *Plans) nvlink(p text.Page) string {
	var lines []string
	for i := range r.Graphs {
		for _, domain := range r.Graphs[i].ComputeDomains {
			lines = append(lines, p.Wrap(fmt.Sprintf("%s/%s: %s", r.Graphs[i].Namespace, r.Graphs[i].Name, nvlink.Describe(domain.Name,
				domain.Cliques)), "  "))
		}
	}
	if len(lines) == 0 {
		return ""
	}
	return p.Head("NVLINK DOMAINS") + "\n" + strings.Join(lines, "\n") + "\n"
}
