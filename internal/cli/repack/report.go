// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package repack

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/trellis-k8s/trellis/internal/cli"
	"github.com/trellis-k8s/trellis/internal/cli/live"
	"github.com/trellis-k8s/trellis/internal/cli/text"
	"github.com/trellis-k8s/trellis/internal/limit"
	"github.com/trellis-k8s/trellis/internal/repack"
)

// Report is the result, and its JSON form. Domains are paths of label values, for example "zone-a/rack-1".
type Report struct {
	// Namespace and Name identify the deployment that needs a place. Gang is the first waiting gang of the deployment. Message is the
	// reason of the first replica that lacks capacity. Waiting counts the waiting replicas of the deployment.
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
	Gang      string `json:"gang,omitempty"`
	Message   string `json:"message,omitempty"`
	Waiting   int    `json:"waiting,omitempty"`
	// Level is the level of the domains to free, and Wanted is their number. Already lists the domains that are free without moves.
	Level   string   `json:"level,omitempty"`
	Wanted  int      `json:"wanted,omitempty"`
	Already []string `json:"alreadyFree,omitempty"`
	// Found: there are moves, or no moves are needed. Reason explains why there are no moves.
	Found  bool   `json:"found"`
	Reason string `json:"reason,omitempty"`
	// Domains are the domains that the moves free. Hosts are the hosts on which the waiting gang is then placed.
	Domains []string `json:"domains"`
	Hosts   []string `json:"hosts,omitempty"`
	// GPUs and Replicas count the GPUs and the replicas that restart. Priority is the highest priority of these replicas.
	GPUs     int64  `json:"gpus"`
	Replicas int    `json:"replicas"`
	Priority int32  `json:"priority"`
	Moves    []Move `json:"moves"`
	// MayMove counts the replicas that may move. Resting counts the replicas that started too recently to move.
	MayMove int `json:"mayMove"`
	Resting int `json:"resting,omitempty"`
	// Others are the deployments that come before this deployment in the waiting order, and for which there are no moves.
	Others []Other `json:"others,omitempty"`
	// nodes are the nodes of the domains to free, also of those that are free already. They are cordoned before replicas move.
	nodes []string
	// next is the command that requests the moves from the operator; "" if there is nothing to request.
	next string
	// Operator is present if the operator does not renew its Lease, or if its state is unknown.
	Operator *live.Heartbeat `json:"operator,omitempty"`
}

// Move is the move of one replica. Moves are in order: unless the move is InPlace, the new place is free once all earlier moves are done.
type Move struct {
	Namespace string   `json:"namespace"`
	Name      string   `json:"name"`
	Component string   `json:"service"`
	Replica   int      `json:"replica"`
	Priority  int32    `json:"priority"`
	GPUs      int64    `json:"gpus"`
	From      string   `json:"from"`
	To        string   `json:"to"`
	Hosts     []string `json:"hosts"`
	// InPlace: the new place is not free while the replica runs.
	InPlace bool `json:"inPlace,omitempty"`
}

// Other is a waiting deployment for which there are no moves.
type Other struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Reason    string `json:"reason"`
}

// add adds the moves that the search has found to the report.
func (r *Report) add(found *repack.Result) {
	r.MayMove, r.Resting, r.Domains, r.Moves = found.Considered, found.Rested, []string{}, []Move{}
	if found.Plan == nil {
		return
	}
	r.Found = true
	for _, path := range found.Plan.Domains {
		r.Domains = append(r.Domains, path.String())
	}
	r.Hosts = found.Plan.Nodes
	r.GPUs, r.Replicas, r.Priority = found.Plan.Cost.GPUs, found.Plan.Cost.Replicas, found.Plan.Cost.Priority
	for _, m := range found.Plan.Moves {
		r.Moves = append(r.Moves, Move{
			Namespace: m.Replica.Namespace, Name: m.Replica.Graph, Component: m.Replica.Component, Replica: m.Replica.Ordinal,
			Priority: m.Replica.Priority, GPUs: m.Replica.GPUs(), From: m.From.String(), To: m.To.String(), Hosts: m.Nodes, InPlace: m.InPlace,
		})
	}
}

// Refs returns the deployments of the replicas that move, in the order of the moves.
func (r *Report) Refs() []cli.Ref {
	var refs []cli.Ref
	seen := map[string]bool{}
	for _, m := range r.Moves {
		if key := m.Namespace + "/" + m.Name; !seen[key] {
			seen[key] = true
			refs = append(refs, cli.Ref{Kind: cli.Graph.Name, Group: cli.Graph.Group, Name: m.Name})
		}
	}
	return refs
}

// maxHosts is the maximum number of hosts that a row names.
const maxHosts = 3

// Text renders the goal of the moves, their cost, and each move.
func (r *Report) Text(p text.Page) string {
	var b strings.Builder
	if r.Name != "" {
		line := r.Namespace + "/" + r.Name
		if r.Gang != "" {
			line += ": " + r.Gang + " waits: " + limit.Text(r.Message, 600)
		}
		b.WriteString(p.Wrap(line, "  ") + "\n")
	}
	if r.Reason != "" {
		b.WriteString(p.Wrap(strings.ToUpper(r.Reason[:1])+r.Reason[1:]+".", "  ") + "\n")
	}
	for _, o := range r.Others {
		b.WriteString(p.Wrap(fmt.Sprintf("%s/%s: %s.", o.Namespace, o.Name, o.Reason), "  ") + "\n")
	}
	if len(r.Moves) > 0 {
		b.WriteString(r.cost(p) + "\n" + p.Table(r.rows(p.Wide), 0, 2))
		if r.Waiting > 1 {
			note := fmt.Sprintf("%d replicas of the deployment wait: the moves are for the first gang of them.", r.Waiting)
			b.WriteString(p.Wrap(note, "  ") + "\n")
		}
	}
	if r.next != "" {
		b.WriteString(r.toDo() + "\n  " + r.next + "\n")
	}
	return b.String()
}

// changes reports whether there is something to do: replicas to move, or domains whose nodes are to be cordoned.
func (r *Report) changes() bool { return len(r.Moves) > 0 || r.Found && len(r.nodes) > 0 }

// toDo introduces the command that makes the moves.
func (r *Report) toDo() string {
	cordon := "cordon " + text.Count(len(r.nodes), "node")
	switch {
	case len(r.nodes) == 0:
		return "Nothing is moved yet. To have the operator make the moves:"
	case len(r.Moves) == 0:
		return "Nothing is changed yet. To " + cordon + " there:"
	}
	return "Nothing is moved yet. To " + cordon + " there and have the operator make the moves:"
}

// cost describes the replicas and GPUs that restart, and the result of the moves.
func (r *Report) cost(p text.Page) string {
	restart := "restart"
	if r.Replicas == 1 {
		restart = "restarts"
	}
	line := fmt.Sprintf("%s with %s %s", text.Count(r.Replicas, "replica"), text.Count(int(r.GPUs), "GPU"), restart)
	free := strings.Join(r.Domains, ", ")
	switch {
	case r.Gang != "" && free == "":
		line += "; " + r.Gang + " gets " + named(r.Hosts, p.Wide)
	case r.Gang != "":
		line += fmt.Sprintf("; %s gets %s in %s", r.Gang, named(r.Hosts, p.Wide), free)
	default:
		line += "; no GPU is in use then in " + free
		if len(r.Already) > 0 {
			line += ", nor is one now in " + strings.Join(r.Already, ", ")
		}
	}
	return p.Wrap(line+".", "  ")
}

func (r *Report) rows(wide bool) [][]string {
	rows := [][]string{{"", "MOVES", "GPUS", "FROM", "TO", "HOSTS"}}
	for i, m := range r.Moves {
		hosts := named(m.Hosts, wide)
		if m.InPlace {
			hosts += " (not free while it runs)"
		}
		rows = append(rows, []string{
			strconv.Itoa(i + 1), fmt.Sprintf("%s/%s %s-%d", m.Namespace, m.Name, m.Component, m.Replica), strconv.FormatInt(m.GPUs, 10),
			orCluster(m.From), orCluster(m.To), hosts,
		})
	}
	return rows
}

func orCluster(domain string) string {
	if domain == "" {
		return "the cluster"
	}
	return domain
}

// named lists the distinct hosts.
func named(hosts []string, wide bool) string {
	var list []string
	seen := map[string]bool{}
	for _, h := range hosts {
		if !seen[h] {
			seen[h] = true
			list = append(list, h)
		}
	}
	most := maxHosts
	if wide {
		most = len(list)
	}
	return limit.Join(list, len(list), most, " ")
}
