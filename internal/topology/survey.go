// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// maxNames caps the lists of names in a survey: a status must stay small on a large cluster.
const maxNames = 10

// LevelSurvey is what is real of one level.
type LevelSurvey struct {
	Level
	// Domains counts the distinct paths that end here. Nodes counts the nodes that belong to one of them, Missing those that do not: they
	// lack this label or a broader one.
	Domains, Nodes, Missing int
	// MissingNodes are the first few of the nodes that lack this very label, by name, and MissingLabel is their full number.
	MissingNodes []string
	MissingLabel int
}

// Duplicate is a value of the kubernetes.io/hostname label that several nodes carry.
type Duplicate struct {
	Value string
	// Nodes are the first few, by name; Count is the full number.
	Nodes []string
	Count int
}

// Survey says what is real of a topology in a cluster.
type Survey struct {
	// Nodes counts the nodes the selector takes.
	Nodes  int
	Levels []LevelSurvey
	// Duplicates are host names that are not unique, the first few by value; DuplicateCount is the full number. They matter only when the
	// hostname label is one of the levels. One rack value under two zones is no inconsistency: domains are paths.
	Duplicates     []Duplicate
	DuplicateCount int
}

// SurveyNodes surveys a list of nodes.
func SurveyNodes(nodes []*corev1.Node, levels Levels, nodeSelector map[string]string) Survey {
	s := newSurveyor(levels)
	for _, n := range nodes {
		if matches(nodeSelector, n.Labels) {
			s.add(n.Name, n.Labels)
		}
	}
	return s.finish()
}

// Survey surveys the store.
func (c *Cluster) Survey(levels Levels, nodeSelector map[string]string) Survey {
	s := newSurveyor(levels)
	for _, n := range c.nodes {
		if n != nil && n.spec.present && matches(nodeSelector, n.spec.labels) {
			s.add(n.name, n.spec.labels)
		}
	}
	return s.finish()
}

type surveyor struct {
	levels  Levels
	out     Survey
	domains []map[string]bool
	missing [][]string
	hosts   map[string][]string
}

func newSurveyor(levels Levels) *surveyor {
	s := &surveyor{levels: levels, missing: make([][]string, len(levels)), hosts: map[string][]string{}}
	for _, l := range levels {
		s.out.Levels = append(s.out.Levels, LevelSurvey{Level: l})
		s.domains = append(s.domains, map[string]bool{})
	}
	return s
}

func (s *surveyor) add(name string, labels map[string]string) {
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

func (s *surveyor) finish() Survey {
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

// first sorts the names and returns the first few.
func first(names []string) []string {
	slices.Sort(names)
	return names[:min(len(names), maxNames)]
}
