// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"math"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/trellis-k8s/trellis/internal/cli/text"
	"github.com/trellis-k8s/trellis/internal/limit"
)

// row combines the replicas of a component that are equal except for their ordinals and hosts.
type row struct {
	key
	ordinals []int
	nodes    []string
}

type key struct{ component, state, since, domain, detail string }

// rowsFor groups replicas by key.
func rowsFor(replicas []Replica, keyOf func(*Replica) key) []row {
	var rows []row
	for i := range replicas {
		one := &replicas[i]
		k := keyOf(one)
		at := slices.IndexFunc(rows, func(r row) bool { return r.key == k })
		if at < 0 {
			at, rows = len(rows), append(rows, row{key: k})
		}
		rows[at].ordinals, rows[at].nodes = append(rows[at].ordinals, one.Replica), append(rows[at].nodes, one.Nodes...)
	}
	return rows
}

// replicas renders one row for each group of equal replicas. If that results in too many rows, it renders one row for all replicas of a
// component in the same state.
func (s setting) replicas(r *Explanation) string {
	list := rowsFor(r.Replicas, func(one *Replica) key {
		return key{one.Component, one.State, s.of(one.Since), one.place(), one.detail()}
	})
	if len(list) == 0 {
		return ""
	}
	if len(list) > s.rows+1 {
		list = rowsFor(r.Replicas, s.coarse(r.Replicas))
	}
	rows := [][]string{{"REPLICA", "STATE", "SINCE", "DOMAIN", "HOSTS"}}
	var about details
	hidden, most := 0, maxNodes
	if s.Wide {
		most = math.MaxInt
	}
	for i, one := range list {
		if i >= s.rows && len(list) > s.rows+1 {
			hidden += len(one.ordinals)
			continue
		}
		hosts := slices.Compact(slices.Sorted(slices.Values(one.nodes)))
		rows = append(rows, []string{one.component + "-" + text.Ranges(one.ordinals), s.state(one.state), one.since, one.domain,
			some(hosts, most)})
		about.add(one.component, one.detail, one.ordinals)
	}
	out := s.Table(rows)
	if hidden > 0 {
		out += fmt.Sprintf("and %s; -o wide shows all of them\n", text.Count(hidden, "more replica"))
	}
	return out + s.list("", about.lines(), s.details)
}

// coarse returns a key function. It gives all placed replicas of a component in one state the same key, and all unplaced replicas of this
// component and state another key. If the replicas are in several domains, the key contains the number of domains.
func (s setting) coarse(replicas []Replica) func(*Replica) key {
	type state struct {
		component, state string
		placed           bool
	}
	of := func(r *Replica) state { return state{r.Component, r.State, r.place() != ""} }
	domains, since, details := map[state][]string{}, map[state]*metav1.Time{}, map[state]string{}
	for i := range replicas {
		r, k := &replicas[i], of(&replicas[i])
		if place := r.place(); place != "" && !slices.Contains(domains[k], place) {
			domains[k] = append(domains[k], place)
		}
		if first := since[k]; r.Since != nil && (first == nil || r.Since.Before(first)) {
			since[k] = r.Since
		}
		if details[k] == "" {
			details[k] = r.detail()
		}
	}
	return func(r *Replica) key {
		k := of(r)
		domain := strings.Join(domains[k], "")
		if n := len(domains[k]); n > 1 {
			domain = fmt.Sprintf("%d domains", n)
			if r.WouldGo != "" {
				domain = "-> " + domain
			}
		}
		return key{r.Component, r.State, s.of(since[k]), domain, details[k]}
	}
}

// state colours a state.
func (s setting) state(state string) string {
	switch state {
	case StateRunning:
		return s.Good(state)
	case StateNotReady:
		return s.Bad(state)
	}
	return s.Warn(state)
}

// place returns the place of a replica or, after an arrow, the place that the current plan found for it.
func (r *Replica) place() string {
	if r.WouldGo != "" {
		return "-> " + r.WouldGo
	}
	return r.Domain
}

func (r *Replica) detail() string {
	parts := []string{r.PreemptedBy, r.Detail}
	if r.WouldGo != "" && r.State == StateGated {
		parts = append(parts, "there is capacity for it now in "+r.WouldGo)
	}
	if r.Preempts != "" {
		parts = append(parts, "pods of lower priority would free capacity: "+r.Preempts)
	}
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), "; ")
}

// details are the texts below the table. Replicas of a component with the same text share an entry.
type details []struct {
	component, text string
	replicas        []int
}

func (d *details) add(component, detail string, replicas []int) {
	if detail == "" {
		return
	}
	for i := range *d {
		if one := &(*d)[i]; one.component == component && one.text == detail {
			one.replicas = append(one.replicas, replicas...)
			slices.Sort(one.replicas)
			return
		}
	}
	*d = append(*d, struct {
		component, text string
		replicas        []int
	}{component, detail, slices.Clone(replicas)})
}

func (d *details) lines() []string {
	var lines []string
	for _, one := range *d {
		lines = append(lines, fmt.Sprintf("%s-%s: %s", one.component, text.Ranges(one.replicas), one.text))
	}
	return lines
}

// some lists the first few names and counts the others.
func some(names []string, most int) string { return limit.Join(names, len(names), most, " ") }
