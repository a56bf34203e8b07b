// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"math"
	"slices"
)

const (
	// maxSizes is the maximum number of pod sizes of a CapacityByLevel, and maxCapacityLevels the maximum number of its levels.
	maxSizes, maxCapacityLevels = 6, 64
)

// CapacityByLevel is the capacity for one resource at the levels of several trees. It includes only nodes that are ready, not cordoned and
// not about to be removed. It ignores other taints, because a pod may tolerate them. Reservations of released, unbound pods count as used
// capacity.
type CapacityByLevel struct {
	// Sizes are the requests per pod for which gangs are measured, ascending: at most 5 powers of two, from 1, below the capacity of the
	// largest node, then this capacity.
	Sizes []int64
	// Levels are the whole cluster and then the levels of the trees. Levels with the same name in several trees are merged. A level with
	// the name of the whole cluster is omitted.
	Levels []LevelCapacity
}

// LevelCapacity is one level of a CapacityByLevel. Amounts are in the units of the resource, cpu in thousandths.
type LevelCapacity struct {
	// Level is the name of the level's domains, such as rack.
	Level string
	// Domains counts the domains in all trees. Unlabelled counts the nodes of a tree that offer the resource but are in no domain of the
	// level; it is the maximum over the trees.
	Domains, Unlabelled int
	// Capacity is the total of the usable nodes in these domains, Free its unused part.
	Capacity, Free int64
	// Largest is, for each size, the total amount of the largest gang of pods of that size that fits into one domain. Gathered is this
	// amount if all free capacity were in one domain. Gathered is limited by the free capacity, and by the capacity of an empty domain.
	Largest, Gathered []int64
}

// Fragmentation compares the largest gang of pods of the i-th size with the gang that would fit if all free capacity were in one place. It
// returns 0 if the two gangs are equal or nothing is free, and 1 if no gang fits.
func (l LevelCapacity) Fragmentation(i int) float64 {
	if l.Gathered[i] == 0 {
		return 0
	}
	return 1 - float64(l.Largest[i])/float64(l.Gathered[i])
}

// tally has the sums of a domain: the capacity and free amounts and, for each size, how many pods fit now and how many would fit into the
// empty domain. A tally fills a cache line of the CPU.
type tally struct {
	capacity, free int64
	fits, empty    [maxSizes]int32
}

func (t *tally) add(o *tally, sizes int) {
	t.capacity, t.free = t.capacity+o.capacity, t.free+o.free
	for i := range min(sizes, maxSizes) {
		t.fits[i], t.empty[i] = plus(t.fits[i], o.fits[i]), plus(t.empty[i], o.empty[i])
	}
}

// plus adds two numbers of pods. The sum saturates at the maximum of int32, which one node can reach if pods request only a few bytes of
// memory.
func plus(a, b int32) int32 { return int32(min(int64(a)+int64(b), math.MaxInt32)) }

// CapacityByLevel counts a resource over the levels of trees of this cluster. It makes one pass over the nodes and domains of each tree. It
// creates no views, which later changes would have to update.
func (c *Cluster) CapacityByLevel(resource string, trees ...*Tree) CapacityByLevel {
	at := c.resources.of(resource)
	if at == notOffered {
		return CapacityByLevel{}
	}
	capacity := CapacityByLevel{Sizes: sizesUpTo(c.largest(at))}
	cluster := &LevelCapacity{Level: Levels(nil).Name(NoLevel), Domains: 1}
	var all tally
	for _, n := range c.nodes {
		if n.offers(at) {
			one := n.tally(at, capacity.Sizes)
			all.add(&one, len(capacity.Sizes))
		}
	}
	cluster.Capacity, cluster.Free = all.capacity, all.free
	cluster.widen(&all, capacity.Sizes, all.free)
	levels := []*LevelCapacity{cluster}
	var counted []uint64 // per node, the levels at which it is already counted; nil for a single tree
	if len(trees) > 1 {
		counted = make([]uint64, len(c.nodes))
	}
	for _, t := range trees {
		levels = t.count(levels, counted, capacity.Sizes, at)
	}
	for _, l := range levels {
		capacity.Levels = append(capacity.Levels, *l)
	}
	return capacity
}

// widen updates Largest and Gathered for a further domain. free is the free amount in the entire tree of the domain.
func (l *LevelCapacity) widen(domain *tally, sizes []int64, free int64) {
	if l.Largest == nil {
		l.Largest, l.Gathered = make([]int64, len(sizes)), make([]int64, len(sizes))
	}
	for i, size := range sizes {
		l.Largest[i] = max(l.Largest[i], int64(domain.fits[i])*size)
		l.Gathered[i] = max(l.Gathered[i], min(int64(domain.empty[i]), free/size)*size)
	}
}

// count adds the nodes and domains of a tree to the levels.
func (t *Tree) count(levels []*LevelCapacity, counted []uint64, sizes []int64, resource int) []*LevelCapacity {
	levels, index := t.indexIn(levels)
	unlabelled := make([]int, len(t.levels))
	domains := slices.Grow(t.cluster.tallies[:0], len(t.domains))[:len(t.domains)]
	clear(domains)
	t.cluster.tallies = domains // reused by the next call: at 100,000 nodes with a level of hosts it takes 7 MB
	for id, n := range t.cluster.nodes {
		home := t.Home(NodeID(id))
		if home == Nowhere || !n.offers(resource) {
			continue
		}
		one, depth := n.tally(resource, sizes), t.LevelOf(home)
		domains[home].add(&one, len(sizes))
		for level, at := range index {
			if level > depth {
				unlabelled[level]++
			} else if at >= 0 && firstTime(counted, id, at) {
				levels[at].Capacity, levels[at].Free = levels[at].Capacity+one.capacity, levels[at].Free+one.free
			}
		}
	}
	for d := len(domains) - 1; d > int(Root); d-- { // a domain has a higher index than its parent
		domains[t.domains[d].parent].add(&domains[d], len(sizes))
	}
	for level, at := range index {
		if at < 0 {
			continue
		}
		levels[at].Unlabelled = max(levels[at].Unlabelled, unlabelled[level])
		levels[at].Domains += len(t.order[level])
		levels[at].widen(&tally{}, sizes, 0)
		for _, d := range t.order[level] {
			levels[at].widen(&domains[d], sizes, domains[Root].free)
		}
	}
	return levels
}

// indexIn returns, for each level of the tree, its index in the given levels, to which it appends missing levels. The index is -1 for a
// level beyond maxCapacityLevels. It is also -1 for a level with the name of the whole cluster, which is counted already.
func (t *Tree) indexIn(levels []*LevelCapacity) (all []*LevelCapacity, index []int) {
	for _, level := range t.levels {
		i := slices.IndexFunc(levels, func(l *LevelCapacity) bool { return l.Level == level.Domain })
		if i < 0 && len(levels) < maxCapacityLevels {
			i, levels = len(levels), append(levels, &LevelCapacity{Level: level.Domain})
		} else if i == 0 {
			i = -1
		}
		index = append(index, i)
	}
	return levels, index
}

// firstTime reports whether a node was not yet counted for a level, and records that it is counted now.
func firstTime(counted []uint64, id, level int) bool {
	if counted == nil {
		return true
	}
	bit := uint64(1) << level
	was := counted[id]&bit != 0
	counted[id] |= bit
	return !was
}

// offers reports whether the node offers a resource, used or not.
func (n *node) offers(resource int) bool { return n != nil && n.spec.present && n.has(resource) }

// tally counts a resource on a node; zero for a node that takes no pods.
func (n *node) tally(resource int, sizes []int64) (t tally) {
	if !n.offers(resource) || n.spec.notReady || n.spec.cordoned || n.spec.leaving {
		return t
	}
	t.capacity, t.free = n.free[resource], max(n.available(resource), 0)
	for i, size := range sizes {
		t.fits[i], t.empty[i] = int32(min(t.free/size, math.MaxInt32)), int32(min(t.capacity/size, math.MaxInt32))
	}
	return t
}

// largest returns the maximum amount of a resource on one node.
func (c *Cluster) largest(resource int) (most int64) {
	for _, n := range c.nodes {
		if n.offers(resource) {
			most = max(most, n.free[resource])
		}
	}
	return most
}

// sizesUpTo lists the first maxSizes-1 powers of two below an amount, then the amount.
func sizesUpTo(most int64) []int64 {
	var sizes []int64
	for size := int64(1); size < most && len(sizes) < maxSizes-1 && size < math.MaxInt64/2; size *= 2 {
		sizes = append(sizes, size)
	}
	if most > 0 {
		sizes = append(sizes, most)
	}
	return sizes
}
