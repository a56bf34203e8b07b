// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import "math/bits"

// index sorts the domains of one level into classes by their capacity. The tightest domain is then found in a few classes, without a
// comparison of all domains. A class is a bit set of members in path order. The view keeps the index up to date: it marks each domain whose
// count changed, and the next read moves this domain to its class.
type index struct {
	shape   uint64
	classes []Class
	byKey   map[[2]int64]int32
	// of[i] is the index of the class of the i-th domain in path order.
	of      []int32
	pending []DomainID
	// rest is the number of calls for which Classes returns nil before it rebuilds an index with too many classes.
	rest int
}

// Class is the set of domains of one level that are alike in a view.
type Class struct {
	// Fit is how many pods each domain holds. Biggest is how many pods the domain's largest child holds; 0 at the narrowest level.
	Fit, Biggest int
	// Domains is the number of members.
	Domains int
	members []uint64
}

// maxClasses is the maximum number of classes of an index. With more classes, an iteration over all domains is as fast.
const maxClasses = 512

// Classes returns the classes of a level in no particular order; some of them may be empty. It returns nil if there are too many classes.
// Callers must not change the list.
func (v *View) Classes(level int) []Class {
	v.refresh()
	if v.indexes == nil {
		v.indexes = make([]*index, len(v.tree.levels))
	}
	ix := v.indexes[level]
	switch {
	case ix != nil && ix.rest > 0 && ix.shape == v.tree.shape:
		ix.rest--
		return nil
	case ix == nil || ix.rest == 0 && len(ix.classes) == 0 || ix.shape != v.tree.shape:
		ix = v.index(level)
	default:
		for _, d := range ix.pending {
			v.noted[d] = false
			v.classify(ix, level, d)
		}
		ix.pending = ix.pending[:0]
	}
	if len(ix.classes) > maxClasses {
		ix = v.index(level) // removes empty classes, which accumulate
	}
	if len(ix.classes) > maxClasses {
		ix.classes, ix.byKey, ix.rest = nil, nil, 4*maxClasses
	}
	return ix.classes
}

// index rebuilds the index of a level.
func (v *View) index(level int) *index {
	order := v.tree.order[level]
	ix := &index{shape: v.tree.shape, byKey: map[[2]int64]int32{}, of: make([]int32, len(order))}
	v.tree.number()
	for i, d := range order {
		v.noted[d] = false
		ix.of[i] = -1
	}
	for _, d := range order {
		if len(ix.classes) > maxClasses {
			break
		}
		v.classify(ix, level, d)
	}
	v.indexes[level] = ix
	return ix
}

// classify moves a domain to its current class.
func (v *View) classify(ix *index, level int, d DomainID) {
	if v.tree.domains[d].size == 0 {
		return
	}
	key := [2]int64{v.sum[d], 0}
	if level < len(v.tree.levels)-1 {
		key[1] = int64(v.Biggest(d))
	}
	at, known := ix.byKey[key]
	if !known {
		at = int32(len(ix.classes))
		ix.byKey[key] = at
		ix.classes = append(ix.classes, Class{Fit: int(key[0]), Biggest: int(key[1]), members: make([]uint64, (len(ix.of)+63)/64)})
	}
	pos := v.tree.position[d]
	if old := ix.of[pos]; old == at {
		return
	} else if old >= 0 {
		ix.classes[old].members[pos/64] &^= 1 << (pos % 64)
		ix.classes[old].Domains--
	}
	ix.of[pos] = at
	ix.classes[at].members[pos/64] |= 1 << (pos % 64)
	ix.classes[at].Domains++
}

// Members calls f, in path order, for the domains of a class that lie within a domain, until f returns false. The class must come from the
// last call of Classes for that level.
func (v *View) Members(level int, c *Class, within DomainID, f func(DomainID) bool) {
	inside := v.tree.Domains(level, within)
	if c.Domains == 0 || len(inside) == 0 {
		return
	}
	low := int(v.tree.position[inside[0]])
	high := low + len(inside)
	for w := low / 64; w*64 < high; w++ {
		word := c.members[w]
		if w == low/64 {
			word &= ^uint64(0) << (low % 64)
		}
		for ; word != 0; word &= word - 1 {
			pos := w*64 + bits.TrailingZeros64(word)
			if pos >= high || !f(v.tree.order[level][pos]) {
				return
			}
		}
	}
}

// number assigns each domain its position in the order of its level.
func (t *Tree) number() {
	if t.numbered == t.shape {
		return
	}
	t.numbered = t.shape
	for len(t.position) < len(t.domains) {
		t.position = append(t.position, 0)
	}
	for _, order := range t.order {
		for i, d := range order {
			t.position[d] = int32(i)
		}
	}
}

// Before reports whether a precedes b in path order. Both domains must be of the same level.
func (t *Tree) Before(a, b DomainID) bool {
	t.number()
	return t.position[a] < t.position[b]
}
