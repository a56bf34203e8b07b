// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package repack

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/trellis-k8s/trellis/internal/placement"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// classes groups replicas that have the same possible places and the same cost.
type classes struct {
	// of[m] is the class of mover m. Classes are numbered from 1; 0 means that the class has not been computed yet.
	of    []int32
	byKey map[string]int32
	// moves caches the result of finder.mayMove, by class.
	moves map[int32]bool
}

func newClasses(movers int) classes {
	return classes{of: make([]int32, movers), byKey: map[string]int32{}, moves: map[int32]bool{}}
}

// class returns the class of a mover.
func (f *finder) class(m int32) int32 {
	if f.classes.of[m] > 0 {
		return f.classes.of[m]
	}
	r := f.movers[m]
	var b strings.Builder
	fmt.Fprint(&b, r.Priority, " ", f.gpus[m])
	describe(&b, r.Group)
	id, known := f.classes.byKey[b.String()]
	if !known {
		id = int32(len(f.classes.byKey) + 1)
		f.classes.byKey[b.String()] = id
	}
	f.classes.of[m] = id
	return id
}

// describe writes all properties of a group that determine its possible places.
func describe(b *strings.Builder, g *placement.Group) {
	fmt.Fprintf(b, "|%d %q %v", g.Required, g.Within, g.Apart)
	for i := range g.Pods {
		if i > 0 && g.Pods[i].Shape == g.Pods[i-1].Shape {
			b.WriteByte('+')
			continue
		}
		b.WriteByte('/')
		b.WriteString(g.Pods[i].Shape.Key())
	}
}

// compare orders movers so that interchangeable movers are adjacent.
func (f *finder) compare(a, b int32) int {
	byNode := func(a, b Pod) int { return strings.Compare(a.Node, b.Node) }
	return cmp.Or(cmp.Compare(f.class(a), f.class(b)), slices.CompareFunc(f.movers[a].Pods, f.movers[b].Pods, byNode), cmp.Compare(a, b))
}

// alike reports whether two movers are interchangeable.
func (f *finder) alike(a, b int32) bool {
	return f.class(a) == f.class(b) && slices.EqualFunc(f.movers[a].Pods, f.movers[b].Pods, func(a, b Pod) bool {
		return a.Node == b.Node && a.GPUs == b.GPUs && slices.Equal(a.Requests, b.Requests)
	})
}

// mayMove reports whether a replica of the mover's class has a place elsewhere now, before any move.
func (f *finder) mayMove(m int32) bool {
	class := f.class(m)
	moves, known := f.classes.moves[class]
	if !known {
		one := *f.movers[m].Group
		root := &placement.Group{Required: topology.NoLevel, Preferred: topology.NoLevel, Groups: []*placement.Group{&one}}
		f.count(&one)
		f.Cluster.Begin()
		moves = placement.PlanTogether(f.Cluster, f.Levels, f.NodeSelector, root, f.bounds.options) != nil
		f.Cluster.Rollback()
		f.classes.moves[class] = moves
		f.bounds.plans--
	}
	return moves
}

// signature returns a string that is equal for sets with the same number of replicas of each class.
func (f *finder) signature(s *state) string {
	ids := make([]int32, 0, len(s.chosen))
	for _, l := range s.chosen {
		ids = append(ids, f.class(f.areas[s.domain].movers[l]))
	}
	slices.Sort(ids)
	return fmt.Sprint(ids)
}
