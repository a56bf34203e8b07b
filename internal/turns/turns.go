// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package turns determines the order in which graphs are planned. Graphs of higher priority come first. Within one priority, the namespaces
// take turns, each with its oldest graph. So a namespace with a thousand graphs delays the first graph of another namespace by one plan,
// not by a thousand.
//
//	priority 0: team-a has a1 (oldest), a2, a3; team-b has b1 (youngest)    order: a1 b1 a2 a3
//
// The next turn goes to the namespace that was served least recently. Turns are recorded for each priority as long as graphs of this
// priority are in line. Between two turns of one namespace, another namespace that always has graphs in line is therefore served only once.
// Adding a graph costs a binary search in its namespace. Taking a graph costs a comparison for each namespace of the priority.
package turns

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// Turn is one graph in line.
type Turn struct {
	Namespace, Name string
	// Priority of the graph. Graphs of higher priority come first.
	Priority int32
	// Created orders the graphs of one namespace.
	Created time.Time
}

type id struct{ namespace, name string }

func (g Turn) id() id { return id{g.Namespace, g.Name} }

func older(a, b Turn) int {
	return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.Name, b.Name))
}

// Line holds the graphs in line, each graph once. The zero value is ready to use. A Line is not safe for concurrent use.
type Line struct {
	known      map[id]Turn
	priorities map[int32]*priority
	served     uint64
}

// priority holds the graphs of one priority.
type priority struct {
	// graphs lists the graphs of each namespace, the oldest graph first. No list is empty.
	graphs map[string][]Turn
	// last is the serial number of each namespace's last turn.
	last map[string]uint64
}

// usuallyRemembered is the number of records of namespaces without a graph in line above which forget drops records.
const usuallyRemembered = 1024

// maxRemembered is usuallyRemembered; tests replace it.
var maxRemembered = usuallyRemembered

// Len returns the number of graphs in line.
func (l *Line) Len() int { return len(l.known) }

// Add puts a graph in line, or updates its priority and creation time.
func (l *Line) Add(g Turn) {
	// Removing the last graph of a priority drops the record of turns. This record must survive the update of a graph.
	p := l.priorities[g.Priority]
	if old, known := l.known[g.id()]; known {
		if old.Priority == g.Priority && old.Created.Equal(g.Created) {
			return
		}
		l.Remove(g.Namespace, g.Name)
	}
	if l.known == nil {
		l.known, l.priorities = map[id]Turn{}, map[int32]*priority{}
	}
	l.known[g.id()] = g
	if p == nil {
		p = &priority{graphs: map[string][]Turn{}, last: map[string]uint64{}}
	}
	l.priorities[g.Priority] = p
	list := p.graphs[g.Namespace]
	at, _ := slices.BinarySearchFunc(list, g, older)
	p.graphs[g.Namespace] = slices.Insert(list, at, g)
}

// Remove removes a graph from the line, if the line contains it.
func (l *Line) Remove(namespace, name string) {
	g, known := l.known[id{namespace, name}]
	if !known {
		return
	}
	delete(l.known, g.id())
	p := l.priorities[g.Priority]
	list := p.graphs[namespace]
	if at, found := slices.BinarySearchFunc(list, g, older); found {
		list = slices.Delete(list, at, at+1)
	}
	p.graphs[namespace] = list
	if len(list) == 0 {
		delete(p.graphs, namespace)
	}
	if len(p.graphs) == 0 {
		delete(l.priorities, g.Priority)
	}
}

// Next removes and returns the graph whose turn it is. ok is false if the line is empty.
func (l *Line) Next() (g Turn, ok bool) {
	if len(l.known) == 0 {
		return g, false
	}
	var highest *priority
	var of int32
	for value, p := range l.priorities {
		if highest == nil || value > of {
			highest, of = p, value
		}
	}
	first := true
	for _, graphs := range highest.graphs {
		if first || highest.before(graphs[0], g) {
			g, first = graphs[0], false
		}
	}
	l.served++
	highest.last[g.Namespace] = l.served
	highest.forget()
	l.Remove(g.Namespace, g.Name)
	return g, true
}

// forget drops records of namespaces without a graph in line if there are more than maxRemembered such records. It drops only the records
// of namespaces that were served before every namespace in line, because such a namespace comes first even without a record.
func (p *priority) forget() {
	if len(p.last)-len(p.graphs) <= maxRemembered {
		return
	}
	earliest := uint64(math.MaxUint64)
	for namespace := range p.graphs {
		earliest = min(earliest, p.last[namespace])
	}
	for namespace, at := range p.last {
		if _, inLine := p.graphs[namespace]; !inLine && at < earliest {
			delete(p.last, namespace)
		}
	}
}

// before reports whether the namespace of graph a has its turn before the namespace of graph b. a and b are the oldest graphs of their
// namespaces.
func (p *priority) before(a, b Turn) bool {
	return cmp.Or(cmp.Compare(p.last[a.Namespace], p.last[b.Namespace]), older(a, b), cmp.Compare(a.Namespace, b.Namespace)) < 0
}
