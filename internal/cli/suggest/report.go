// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package suggest

import (
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/cli"
	"github.com/trellis-k8s/trellis/internal/cli/text"
	"github.com/trellis-k8s/trellis/internal/hierarchy"
	"github.com/trellis-k8s/trellis/internal/topologybinding"
)

// Suggestion is the report, and its JSON form.
type Suggestion struct {
	// Name of the topology, and its kind: ClusterTopology or ClusterTopologyBinding.
	Name string `json:"name"`
	Kind string `json:"kind"`
	hierarchy.Proposal
}

// Build proposes a topology of a kind and name.
func Build(kind, name string, nodes []*corev1.Node) Suggestion {
	in := make([]hierarchy.Node, 0, len(nodes))
	for _, node := range nodes {
		in = append(in, hierarchy.Node{Name: node.Name, Labels: node.Labels, Accelerated: accelerated(node)})
	}
	s := Suggestion{Name: name, Kind: kind, Proposal: hierarchy.Propose(in)}
	for _, l := range s.Levels {
		if kind == cli.Binding.Name && len(l.Key) > topologybinding.MaxKey {
			s.Notes = append(s.Notes, fmt.Sprintf("%s has %d characters, and a %s takes label keys of at most %d: use a shorter label.",
				l.Key, len(l.Key), kind, topologybinding.MaxKey))
		}
	}
	return s
}

// accelerated reports whether a node offers GPUs under any resource name, or has a label that reports GPUs.
func accelerated(node *corev1.Node) bool {
	if node.Labels["nvidia.com/gpu.present"] == "true" {
		return true
	}
	for name, amount := range node.Status.Allocatable {
		if strings.Contains(string(name), "/") && strings.Contains(string(name), "gpu") && !amount.IsZero() {
			return true
		}
	}
	return false
}

// Refs returns the topology.
func (r Suggestion) Refs() []cli.Ref {
	return []cli.Ref{{Kind: r.Kind, Group: cli.Topology.Group, Name: r.Name}}
}

// Text renders the manifest, with everything else in comments. It has no colours, because it is YAML.
func (r Suggestion) Text(p text.Page) string {
	var comments []string
	what := fmt.Sprintf("Proposed from the labels of %d nodes.", r.Nodes)
	if r.Others > 0 {
		what = fmt.Sprintf("Proposed from the labels of the %d nodes with accelerators, of %d nodes.", r.Nodes, r.Nodes+r.Others)
	}
	comments = append(comments, what, "")
	rows := [][]string{{"LEVEL", "DOMAINS", "NODES", "LABELED BY"}}
	for _, l := range r.Levels {
		rows = append(rows, []string{l.Domain, strconv.Itoa(l.Domains), fmt.Sprintf("%d/%d", l.Nodes, r.Nodes), l.From})
	}
	comments = append(comments, strings.Split(strings.TrimSuffix(text.Table(rows, 2, 1, 2), "\n"), "\n")...)
	if len(r.Notes) > 0 {
		comments = append(comments, "", "To check:")
	}
	for _, note := range r.Notes {
		comments = append(comments, strings.Split(p.Narrower(2).Wrap("- "+note, "  "), "\n")...)
	}
	var b strings.Builder
	for _, line := range comments {
		b.WriteString(strings.TrimRight("# "+line, " ") + "\n")
	}
	if len(r.Levels) == 0 {
		return b.String()
	}
	name, _ := yaml.Marshal(r.Name) // it always marshals; a name like 123 or no is quoted
	fmt.Fprintf(&b, "apiVersion: %s\nkind: %s\nmetadata:\n  name: %sspec:\n  levels:\n", grovev1alpha1.GroupVersion, r.Kind, name)
	for _, l := range r.Levels {
		fmt.Fprintf(&b, "  - {domain: %s, key: %s}\n", l.Domain, l.Key)
	}
	return b.String()
}
