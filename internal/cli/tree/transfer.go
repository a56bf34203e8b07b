// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package tree

import (
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/trellis-k8s/trellis/internal/cli/text"
	"github.com/trellis-k8s/trellis/internal/gang"
)

// Transfer describes how the bound prefill and decode replicas of a graph with a kvTransferPolicy share domains.
type Transfer struct {
	// Level at which the roles share domains. Required: the first replicas in a domain must include both roles.
	Level    string `json:"level"`
	Required bool   `json:"required,omitempty"`
	// Prefill and Decode count bound replicas. PrefillPaired and DecodePaired count the replicas in domains that contain replicas of both
	// roles.
	Prefill       int `json:"prefill"`
	PrefillPaired int `json:"prefillPaired"`
	Decode        int `json:"decode"`
	DecodePaired  int `json:"decodePaired"`
	// Domains with replicas of the roles.
	Domains []TransferIn `json:"domains"`

	text string
}

// TransferIn counts the replicas of the two roles in one domain. Domain is empty for replicas outside of all domains of the level.
type TransferIn struct {
	Domain  string `json:"domain"`
	Prefill int    `json:"prefill"`
	Decode  int    `json:"decode"`
}

// transfer returns the Transfer of a graph; nil if no policy places the graph's replicas.
func (s *Scene) transfer(g *graphPods) *Transfer {
	labels := map[string]map[string]string{}
	for _, node := range s.Nodes {
		labels[node.Name] = node.Labels
	}
	pods := make([]*corev1.Pod, 0, len(g.pods))
	for i := range g.pods {
		pods = append(pods, g.pods[i].object)
	}
	t := gang.TransferOf(g.groups, pods, func(node string) map[string]string { return labels[node] })
	if t == nil {
		return nil
	}
	out := &Transfer{
		Level: t.Level, Required: t.Required, Domains: []TransferIn{}, text: t.Text(),
		Prefill: t.Prefill.Bound, PrefillPaired: t.Prefill.Paired, Decode: t.Decode.Bound, DecodePaired: t.Decode.Paired,
	}
	for _, in := range t.Domains {
		out.Domains = append(out.Domains, TransferIn{in.Domain.String(), in.Prefill, in.Decode})
	}
	return out
}

// maxTransferDomains bounds the domains of one graph in the text.
const maxTransferDomains = 16

// transferText lists, for each graph with a Transfer, the domains with prefill or decode replicas.
func (r Overview) transferText(p text.Page) string {
	var parts []string
	for i := range r.Graphs {
		g := &r.Graphs[i]
		if g.Transfer == nil || g.Transfer.Prefill+g.Transfer.Decode == 0 {
			continue
		}
		t := g.Transfer
		rows := [][]string{{strings.ToUpper(t.Level), "PREFILL", "DECODE"}}
		for j, in := range t.Domains {
			if j == maxTransferDomains && !p.Wide {
				rows = append(rows, []string{fmt.Sprintf("and %d more", len(t.Domains)-j), "", ""})
				break
			}
			domain := in.Domain
			if domain == "" {
				domain = "in no " + t.Level
			}
			rows = append(rows, []string{domain, strconv.Itoa(in.Prefill), strconv.Itoa(in.Decode)})
		}
		parts = append(parts, p.Wrap("KV transfer of "+r.NameOf(g.Namespace, g.Name)+": "+t.text, "  ")+"\n"+p.Table(rows))
	}
	return strings.Join(parts, "\n")
}
