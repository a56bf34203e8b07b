// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"slices"

	"github.com/trellis-k8s/trellis/internal/bools"
)

// View counts how many pods of one shape fit the nodes and domains of one tree. It processes pending changes when it is read.
type View struct {
	tree  *Tree
	shape *Shape
	held  *held
	// fit is, by node, the number of pods that fit; home is the domain in which this number was counted.
	fit  []int32
	home []DomainID
	// admits caches, by node, whether the node admits the pods; valid while seen has the node's version.
	admits []bool
	seen   []uint64
	// suiting is, by domain, the number of nodes that suit the pods. suits caches, by node, whether the node suits the pods, and is valid
	// like admits. suited tells, by node, whether suiting includes the node.
	suiting       []int32
	suits, suited []bool
	// sum is, by domain, the number of pods that fit. It is an int64, because a node with absurd amounts may count up to the maximum of
	// int32.
	sum []int64
	// biggest caches, by domain, the largest count of a child; negative: unknown.
	biggest []int64
	// free caches, by domain, the free amount of the freeOf-th request. It is empty until it is read.
	free   []int64
	freeOf int
	// indexes are created on demand, one per level. noted marks the domains that an index must still reclassify.
	indexes []*index
	noted   []bool
	cursor  int
	epoch   uint64
	lastUse uint64
	empty   emptyCounts
}

// maxViews is the maximum number of views of a tree. The least recently used view is dropped first. At 100,000 nodes, a view takes 2 MB.
const maxViews = 64

// View returns the view for a shape, and creates it if necessary.
func (t *Tree) View(s *Shape) *View {
	c := t.cluster
	c.tick++
	v, ok := t.views[s.key]
	if !ok {
		if len(t.views) >= maxViews {
			t.evict()
		}
		v = &View{tree: t, shape: s, held: c.intern(&s.load)}
		v.held.refs++
		t.views[s.key] = v
	}
	v.lastUse, v.shape = c.tick, s
	return v
}

// evict drops the least recently used view.
func (t *Tree) evict() {
	oldest := ""
	for key, v := range t.views {
		if oldest == "" || v.lastUse < t.views[oldest].lastUse {
			oldest = key
		}
	}
	t.cluster.unref(t.views[oldest].held)
	delete(t.views, oldest)
}

// Shape returns the shape that the view counts.
func (v *View) Shape() *Shape { return v.shape }

// Fit returns how many pods of the shape a domain holds now.
func (v *View) Fit(d DomainID) int {
	v.tree.cluster.work++
	v.refresh()
	return int(v.sum[d])
}

// Suiting returns how many nodes of a domain suit the pods regardless of other pods: they are ready and match the pods' selector, affinity
// and tolerations. They may be cordoned, reserved or about to leave.
func (v *View) Suiting(d DomainID) int {
	v.tree.cluster.work++
	v.refresh()
	return int(v.suiting[d])
}

// NodeFit returns how many pods of the shape a node holds now.
func (v *View) NodeFit(n NodeID) int {
	v.tree.cluster.work++
	v.refresh()
	return int(v.fit[n])
}

// NodeFits returns NodeFit of all nodes, by NodeID. The parameter read is the number of entries that the caller will read, which count as
// work. The list is valid until pods or nodes change.
func (v *View) NodeFits(read int) []int32 {
	v.tree.cluster.work += uint64(read)
	v.refresh()
	return v.fit
}

// Biggest returns the largest Fit of the domain's children, or the largest NodeFit of the nodes directly in the domain, whichever is
// larger.
func (v *View) Biggest(d DomainID) int {
	v.refresh()
	if v.biggest[d] >= 0 {
		return int(v.biggest[d])
	}
	var most int64
	for _, child := range v.tree.domains[d].children {
		most = max(most, v.sum[child])
	}
	for _, n := range v.tree.domains[d].nodes {
		most = max(most, int64(v.fit[n]))
	}
	v.biggest[d] = most
	return int(most)
}

// Left returns how much of the shape's i-th requested resource is unused on a node; negative when the node offers less than its pods use.
// counts is false when the resource is not counted on the node; see [Cluster.Serve].
func (v *View) Left(n NodeID, i int) (left int64, counts bool) {
	node, w := v.tree.cluster.nodes[n], &v.held.wants[i+1]
	return node.available(w.resource), node.counts(w)
}

// Take counts k more pods of the shape on a node without identifying them. The planner uses it for trials. Every Take must be undone by
// Give or turned into reservations by [Cluster.Reserve]; transactions do not undo it.
func (v *View) Take(n NodeID, k int) {
	c := v.tree.cluster
	c.add(c.nodes[n], v.held, k)
	c.log.touch(n)
	if len(c.following) > 0 {
		c.followed(v.shape, n, k)
	}
}

// Mark returns a hash of the unused amounts of the requested resources; 0 when no pod fits. Nodes with equal marks are alike for pods of
// the shape, and stay alike when the same pods are added.
func (v *View) Mark(id NodeID) uint64 {
	if v.NodeFit(id) == 0 {
		return 0
	}
	n := v.tree.cluster.nodes[id]
	mark := uint64(fnvOffset)
	for _, w := range v.held.wants {
		v.tree.cluster.work++
		mark = (mark ^ uint64(n.available(w.resource))) * fnvPrime
	}
	return mark
}

const (
	fnvOffset = 14695981039346656037
	fnvPrime  = 1099511628211
)

// Give undoes Take.
func (v *View) Give(n NodeID, k int) { v.Take(n, -k) }

// Reserve turns the capacity that Take counted for one pod into a reservation of that pod. v is the view that took the capacity.
func (c *Cluster) Reserve(id string, n NodeID, v *View, s *Shape, pin map[string]string) {
	c.setRecord(id, &record{node: c.nodes[n], held: v.held, shape: s.unruled(), pod: s.pod, pin: pin})
}

// refresh recounts the nodes that changed since the last read.
func (v *View) refresh() {
	log := &v.tree.cluster.log
	switch {
	case v.epoch != v.tree.epoch || v.cursor < log.base:
		v.recount()
	case v.cursor < log.end():
		v.grow()
		for ; v.cursor < log.end(); v.cursor++ {
			if n := log.entries[v.cursor-log.base]; log.last[n] == v.cursor {
				v.update(n)
			}
		}
	}
}

// recount counts all nodes again.
func (v *View) recount() {
	v.sum, v.biggest, v.fit, v.home = v.sum[:0], v.biggest[:0], v.fit[:0], v.home[:0]
	v.suiting, v.suited, v.free = v.suiting[:0], v.suited[:0], v.free[:0]
	v.indexes, v.noted = nil, v.noted[:0]
	v.grow()
	for n := range v.fit {
		id := NodeID(n)
		v.fit[id], v.home[id] = v.count(id)
		if v.home[id] != Nowhere {
			v.sum[v.home[id]] += int64(v.fit[id])
			v.suited[id] = v.suits[id]
			v.suiting[v.home[id]] += int32(bools.Int(v.suited[id]))
		}
	}
	for d := len(v.sum) - 1; d > int(Root); d-- { // a domain has a higher index than its parent
		v.sum[v.tree.domains[d].parent] += v.sum[d]
		v.suiting[v.tree.domains[d].parent] += v.suiting[d]
	}
	v.cursor, v.epoch = v.tree.cluster.log.end(), v.tree.epoch
}

func (v *View) grow() {
	v.sum = fill(v.sum, len(v.tree.domains), 0)
	v.suiting = fill(v.suiting, len(v.tree.domains), 0)
	v.suited = fill(v.suited, len(v.tree.cluster.nodes), false)
	v.biggest = fill(v.biggest, len(v.tree.domains), -1)
	v.noted = fill(v.noted, len(v.tree.domains), false)
	v.fit = fill(v.fit, len(v.tree.cluster.nodes), 0)
	v.home = fill(v.home, len(v.tree.cluster.nodes), Nowhere)
	v.seen = fill(v.seen, len(v.fit), 0)
	v.admits = fill(v.admits, len(v.fit), false)
	v.suits = fill(v.suits, len(v.fit), false)
}

// fill extends a list to at least length n.
func fill[T any](list []T, n int, with T) []T {
	if more := n - len(list); more > 0 {
		list = slices.Grow(list, more)
		for range more {
			list = append(list, with)
		}
	}
	return list
}

// update recounts one node and corrects its domain's and ancestors' sums.
func (v *View) update(id NodeID) {
	fit, home := v.count(id)
	v.forgetFree(v.home[id])
	v.forgetFree(home)
	if suits := home != Nowhere && v.suits[id]; suits != v.suited[id] || home != v.home[id] {
		v.countSuiting(v.home[id], -bools.Int(v.suited[id]))
		v.countSuiting(home, bools.Int(suits))
		v.suited[id] = suits
	}
	if home == v.home[id] {
		if fit != v.fit[id] {
			v.shift(home, int64(fit)-int64(v.fit[id]))
		}
	} else {
		v.shift(v.home[id], -int64(v.fit[id]))
		v.shift(home, int64(fit))
	}
	v.fit[id], v.home[id] = fit, home
}

// count returns how many pods a node holds now, and its domain.
func (v *View) count(id NodeID) (fit int32, home DomainID) {
	home = v.tree.Home(id)
	n := v.tree.cluster.nodes[id]
	if n == nil || home == Nowhere {
		return 0, home
	}
	if v.seen[id] != n.version {
		_, excluded := v.tree.cluster.exclusion(n, v.shape)
		v.admits[id], v.suits[id], v.seen[id] = !excluded, !excluded, n.version
		if excluded && n.spec.present && !n.spec.notReady && (n.spec.cordoned || n.spec.leaving || n.reservedFor != "") {
			_, mismatch := v.tree.cluster.mismatch(n, v.shape)
			v.suits[id] = !mismatch
		}
	}
	if v.admits[id] {
		fit = v.shape.most(v.shape.within(n, v.tree.cluster.fits(n, v.held)))
	}
	return fit, home
}

// countSuiting adds to the number of suitable nodes in a domain and in its ancestors.
func (v *View) countSuiting(at DomainID, by int) {
	for ; by != 0 && at != Nowhere; at = v.tree.domains[at].parent {
		v.suiting[at] += int32(by)
	}
}

// shift adds a number of pods to the sums of a domain and its ancestors.
func (v *View) shift(at DomainID, by int64) {
	for ; at != Nowhere; at = v.tree.domains[at].parent {
		v.sum[at] += by
		v.biggest[at] = -1
		if level := v.tree.LevelOf(at); level >= 0 && v.indexes != nil && v.indexes[level] != nil && !v.noted[at] {
			v.noted[at] = true
			v.indexes[level].pending = append(v.indexes[level].pending, at)
		}
	}
}
