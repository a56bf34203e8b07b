// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package nvlink

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/trellis-k8s/trellis/internal/bools"
	"github.com/trellis-k8s/trellis/internal/limit"
)

// Seat is the clique of one pod of a replica; "" when the pod's node has no clique.
type Seat struct{ Replica, Clique string }

// Clique describes one clique, and the pods of an NVLink domain in this clique.
type Clique struct {
	// Name is the value of [CliqueLabel]; "" stands for nodes without this label.
	Name string `json:"clique"`
	// Replicas are the replicas with pods in the clique, by name.
	Replicas []Replica `json:"replicas"`
}

// Replica counts the pods of a replica in one clique.
type Replica struct {
	Name string `json:"replica"`
	Pods int    `json:"pods"`
}

// CliquesOf groups pods by clique. Cliques are sorted by name; pods without a clique come last.
func CliquesOf(seats []Seat) []Clique {
	seats = slices.Clone(seats)
	slices.SortFunc(seats, func(a, b Seat) int {
		return cmp.Or(bools.Compare(a.Clique == "", b.Clique == ""), strings.Compare(a.Clique, b.Clique), strings.Compare(a.Replica, b.Replica))
	})
	var out []Clique
	for _, seat := range seats {
		if len(out) == 0 || out[len(out)-1].Name != seat.Clique {
			out = append(out, Clique{Name: seat.Clique})
		}
		in := &out[len(out)-1]
		if n := len(in.Replicas); n == 0 || in.Replicas[n-1].Name != seat.Replica {
			in.Replicas = append(in.Replicas, Replica{Name: seat.Replica})
		}
		in.Replicas[len(in.Replicas)-1].Pods++
	}
	return out
}

// maxReplicas is the maximum number of replicas of one clique that String lists.
const maxReplicas = 4

// String returns for example "decode-0 (2 pods) and prefill-0 (2 pods) in clique 7.1".
func (c Clique) String() string {
	names := make([]string, 0, len(c.Replicas))
	for _, r := range c.Replicas {
		names = append(names, fmt.Sprintf("%s (%s)", r.Name, pods(r.Pods)))
	}
	in := "clique " + c.Name
	if c.Name == "" {
		in = "no clique"
	}
	return strings.Join(limit.First(names, maxReplicas, ""), ", ") + " in " + in
}

func pods(n int) string {
	if n == 1 {
		return "1 pod"
	}
	return fmt.Sprintf("%d pods", n)
}

// maxCliques is the maximum number of cliques that a message lists.
const maxCliques = 4

// Describe lists the pods of a domain by clique.
func Describe(domain string, cliques []Clique) string {
	parts := make([]string, 0, len(cliques))
	for _, c := range cliques {
		parts = append(parts, c.String())
	}
	span := ""
	if len(cliques) > 1 {
		span = fmt.Sprintf(" is in %d cliques, which share no memory", len(cliques))
	}
	return fmt.Sprintf("NVLink domain %s%s: %s", domain, span, strings.Join(limit.First(parts, maxCliques, "cliques"), "; "))
}
