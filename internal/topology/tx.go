// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

// undo is the state before one change: the spec of a node if spec is set, else the record of a pod. If both are nil, the pod had no record.
type undo struct {
	name   string
	spec   *nodeSpec
	record *record
	// node is the name of record.node, which may be released before the record is restored.
	node string
}

// Begin opens a transaction; transactions may be nested. Rollback undoes all changes since Begin, in O(changes).
func (c *Cluster) Begin() { c.marks = append(c.marks, len(c.undo)) }

// Commit keeps the changes since the last Begin; an enclosing transaction can still undo them.
func (c *Cluster) Commit() {
	c.marks = c.marks[:len(c.marks)-1]
	if len(c.marks) > 0 {
		return
	}
	for i := range c.undo {
		c.forgetUndo(&c.undo[i])
	}
	c.undo = c.undo[:0]
}

// Rollback undoes the changes since the last Begin.
func (c *Cluster) Rollback() {
	mark := c.marks[len(c.marks)-1]
	changes := c.undo[mark:]
	open := c.marks
	c.marks = nil // undoing is not recorded
	for i := len(changes) - 1; i >= 0; i-- {
		c.putBack(&changes[i])
		changes[i] = undo{}
	}
	c.undo, c.marks = c.undo[:mark], open[:len(open)-1]
}

func (c *Cluster) putBack(u *undo) {
	switch {
	case u.spec != nil:
		c.putSpec(u.name, *u.spec)
	case u.record == nil:
		c.putPod(u.name, nil)
	default:
		r := *u.record
		r.node = c.ensure(u.node)
		c.putPod(u.name, &r)
		c.unref(r.held)
	}
}

// forgetUndo releases the reference of an undo entry to a load.
func (c *Cluster) forgetUndo(u *undo) {
	if u.record != nil {
		c.unref(u.record.held)
	}
	*u = undo{}
}

// changeLog lists the changed nodes in the order of the changes. Every view reads it independently.
type changeLog struct {
	// base is the position of entries[0]; older entries were dropped.
	base    int
	entries []NodeID
	// last is, by node, the position of the node's newest entry. With it, a view recounts a node only once, however often the node changed.
	last []int
}

// minLog is the minimum capacity of the log, in changes. On a large cluster, the capacity is four times the number of nodes. After more
// changes, recounting all nodes is cheaper.
const minLog = 1 << 14

func (l *changeLog) end() int { return l.base + len(l.entries) }

// forget makes every view recount all nodes.
func (l *changeLog) forget() { l.base, l.entries = l.end()+1, l.entries[:0] }

func (l *changeLog) touch(n NodeID) {
	for len(l.last) <= int(n) {
		l.last = append(l.last, -1)
	}
	if len(l.entries) >= max(minLog, 4*len(l.last)) {
		l.base, l.entries = l.end(), l.entries[:0]
	}
	l.last[n] = l.end()
	l.entries = append(l.entries, n)
}
