// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/trellis-k8s/trellis/internal/hierarchy"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// Unlabeled explains that node labels, or the order of the levels, keep a gang from being placed, although there may be enough hosts.
type Unlabeled struct {
	// Level and Key identify the broadest level whose label is missing on some nodes. Lack counts these nodes, and Hosts counts all
	// considered nodes.
	Level, Key  string
	Lack, Hosts int
	// Above is a narrower level that wrongly precedes Level in the order of levels; "" where the order is not the cause.
	Above string
}

// unlabeled explains which label or order of levels keeps hosts out of the domains of a level; nil for none. With a view, it considers only
// hosts that suit the view's pods.
func (s *search) unlabeled(level int, view *topology.View) *Unlabeled {
	count := s.tree.Size
	if view != nil {
		count = view.Suiting
	}
	levels, hosts := s.tree.Levels(), count(topology.Root)
	for i := range level + 1 {
		if i == level {
			if above := s.narrowerAbove(level); above != "" {
				return &Unlabeled{Level: levels[level].Domain, Key: levels[level].Key, Above: above}
			}
		}
		in := 0
		for _, d := range s.tree.Domains(i, topology.Root) {
			in += count(d)
		}
		if in < hosts {
			return &Unlabeled{Level: levels[i].Domain, Key: levels[i].Key, Lack: hosts - in, Hosts: hosts}
		}
	}
	return nil
}

// narrowerAbove returns a level that is listed above the given level although it is narrower: the hostname level, or the adjacent level if
// the labels show that it is narrower. It returns "" for none.
func (s *search) narrowerAbove(level int) string {
	if level <= 0 {
		return ""
	}
	levels := s.tree.Levels()
	for _, l := range levels[:level] {
		if l.Key == corev1.LabelHostname {
			return l.Domain
		}
	}
	pair := levels[level-1 : level+1]
	if !hierarchy.Misranked(pair[0], pair[1]) {
		return ""
	}
	var labels []map[string]string
	for _, d := range s.tree.Domains(level, topology.Root) {
		labels = append(labels, s.tree.Labels(d))
	}
	if len(hierarchy.FindReversed(labels, pair)) == 0 {
		return ""
	}
	return pair[0].Domain
}

// nowhere explains why no node is in a domain of a level. The cause may be that nodes lack the label of a broader level. It returns nil if
// there are no nodes.
func (s *search) nowhere(level int) *Never {
	n := &Never{Level: s.tree.Levels().Name(level), Unlabeled: s.unlabeled(level, nil)}
	if n.Unlabeled == nil { // there are no nodes
		return nil
	}
	return n
}

// labelsHelp reports whether some domain of the level could hold the pods if it also contained all hosts outside the level's domains. It
// counts all hosts as empty.
func labelsHelp(view *topology.View, domains []topology.DomainID, pods int) bool {
	outside, best := view.WhenEmpty(topology.Root), 0
	for _, d := range domains {
		holds := view.WhenEmpty(d)
		outside, best = outside-holds, max(best, holds)
	}
	return outside > 0 && best+outside >= pods
}

// text returns for example "no node has label example.com/rack of level 'rack': correct the key of the level, or label the nodes". If only
// some hosts lack the label, the text begins with where, for example "no rack has 4 hosts: the largest has 2 (a/r0)".
func (l *Unlabeled) text(where string) string {
	switch {
	case l.Above != "":
		return fmt.Sprintf("level '%s' is below level '%s', so that a %s is one %s: list the levels from the broadest to the narrowest",
			name(l.Level), name(l.Above), name(l.Level), name(l.Above))
	case l.Lack == l.Hosts:
		return fmt.Sprintf("no node has label %s of level '%s': correct the key of the level, or label the nodes", name(l.Key), name(l.Level))
	}
	return fmt.Sprintf("%s, and %d of %d hosts lack label %s of level '%s': label them", where, l.Lack, l.Hosts, name(l.Key), name(l.Level))
}
