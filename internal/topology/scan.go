// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// maxNames caps the lists of names in a scan, so that a status stays small on a large cluster.
const maxNames = 10

// LevelScan describes how the nodes match one level.
type LevelScan struct {
	Level
	// Domains counts the distinct paths that end at the level, Nodes the nodes in these domains, and Missing all other nodes.
	Domains, Nodes, Missing int
	// MissingNodes lists the first nodes by name that lack the label of this level. MissingLabel is the number of all such nodes.
	MissingNodes []string
	MissingLabel int
}

// Duplicate is a value of the kubernetes.io/hostname label that several nodes carry.
type Duplicate struct {
	Value string
	// Nodes lists the first nodes by name that carry the value. Count is the number of all such nodes.
	Nodes []string
	Count int
}

// Scan describes how the nodes of a cluster match a topology.
type Scan struct {
	// Nodes counts the nodes that the selector matches.
	Nodes  int
	Levels []LevelScan
	// Duplicates lists the first duplicate host names by value. DuplicateCount is the number of all duplicates. Duplicates matter only if
	// the topology has a level with the hostname label. Equal rack names in two zones are not duplicates, because domains are paths.
	Duplicates     []Duplicate
	DuplicateCount int
}

// ScanNodes scans a list of nodes.
func ScanNodes(nodes []*corev1.Node, levels Levels, nodeSelector map[string]string) Scan {
	s := newScanner(levels)
	for _, n := range nodes {
		if matches(nodeSelector, n.Labels) {
			s.add(n.Name, n.Labels)
		}
	}
	return s.finish()
}

type scanner struct {
	levels  Levels
	out     Scan
	domains []map[string]bool
	missing [][]string
	hosts   map[string][]string
}

func newScanner(levels Levels) *scanner {
	s := &scanner{levels: levels, missing: make([][]string, len(levels)), hosts: map[string][]string{}}
	for _, l := range levels {
		s.out.Levels = append(s.out.Levels, LevelScan{Level: l})
		s.domains = append(s.domains, map[string]bool{})
	}
	return s
}

func (s *scanner) add(name string, labels map[string]string) {
	s.out.Nodes++
	path := s.levels.PathOf(labels)
	key := ""
	for i, l := range s.levels {
		value := labels[l.Key]
		if value == "" {
			s.missing[i] = append(s.missing[i], name)
		} else if l.Key == corev1.LabelHostname {
			s.hosts[value] = append(s.hosts[value], name)
		}
		if i < len(path) {
			key += "\x00" + path[i]
			s.domains[i][key] = true
			s.out.Levels[i].Nodes++
		} else {
			s.out.Levels[i].Missing++
		}
	}
}

func (s *scanner) finish() Scan {
	for i := range s.levels {
		l := &s.out.Levels[i]
		l.Domains = len(s.domains[i])
		l.MissingLabel = len(s.missing[i])
		l.MissingNodes = first(s.missing[i])
	}
	for value, nodes := range s.hosts {
		if len(nodes) > 1 {
			s.out.DuplicateCount++
			s.out.Duplicates = append(s.out.Duplicates, Duplicate{Value: value, Nodes: first(nodes), Count: len(nodes)})
		}
	}
	slices.SortFunc(s.out.Duplicates, func(a, b Duplicate) int { return strings.Compare(a.Value, b.Value) })
	s.out.Duplicates = s.out.Duplicates[:min(len(s.out.Duplicates), maxNames)]
	return s.out
}

// first sorts the names and returns the first maxNames.
func first(names []string) []string {
	slices.Sort(names)
	return names[:min(len(names), maxNames)]
}
