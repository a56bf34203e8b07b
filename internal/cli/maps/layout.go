// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package maps

import (
	"fmt"
	"slices"

	"github.com/trellis-k8s/trellis/internal/cli/tree"
)

// foldAbove is how many hosts a map shows with their names.
const foldAbove = 500

// scale is how large things are drawn, in pixels.
type scale struct {
	cell, row, bar int // a cell's width, a host's height with the gap below it, and its bar's height
	head, rackHead int // titles of boxes, and of racks
	pad, gap       int // the space inside of a box, and that between boxes
	letter         int // of a label; 0 leaves labels out
	perColumn      int // hosts of a rack above one another
}

var (
	roomy  = scale{cell: 8, row: 16, bar: 12, head: 19, rackHead: 19, pad: 6, gap: 6, letter: 6, perColumn: 20}
	folded = scale{cell: 4, row: 7, bar: 6, head: 18, rackHead: 14, pad: 4, gap: 3, perColumn: 40}
)

// widest is how many cells a host is drawn with at most; of more, they share the width.
const widest = 32

// box is a domain on the drawing. Positions are within the box around it.
type box struct {
	*tree.Domain
	title, sum string
	x, y, w, h int
	depth      int
	boxes      []*box
	hosts      []host
	label      int // width of the labels
}

// host is one line of a rack.
type host struct {
	*tree.Domain
	name string
	x, y int
}

// layout sets the boxes of a domain beside one another until the width is used up, and then below.
func (s scale) layout(d *tree.Domain, title string, depth, width int) *box {
	b := &box{Domain: d, title: title, depth: depth}
	if d.Amount != nil {
		b.sum = fmt.Sprintf("%d of %d free", d.Free, d.Total)
	}
	if isRack(d) {
		s.rack(b)
		return b
	}
	names := s.titles(d.Children)
	x, y, line, right := s.pad, s.head, 0, 0
	for i, child := range d.Children {
		kid := s.layout(child, names[i], depth+1, width-2*s.pad)
		if x > s.pad && x+kid.w > width-s.pad {
			x, y, line = s.pad, y+line+s.gap, 0
		}
		kid.x, kid.y = x, y
		x, line, right = x+kid.w+s.gap, max(line, kid.h), max(right, x+kid.w)
		b.boxes = append(b.boxes, kid)
	}
	b.w, b.h = max(right+s.pad, s.titleWidth(b)), y+line+s.pad
	return b
}

func isRack(d *tree.Domain) bool {
	return slices.ContainsFunc(d.Children, func(c *tree.Domain) bool { return c.Node })
}

// titles of boxes beside one another; racks have short ones where there is little space.
func (s scale) titles(list []*tree.Domain) []string {
	names := make([]string, 0, len(list))
	short := s.letter == 0
	for _, d := range list {
		names, short = append(names, d.Name), short && isRack(d)
	}
	if short {
		names = shortNames(names, false)
	}
	for i, d := range list {
		if !short || names[i] == "" {
			names[i] = d.Title()
		}
	}
	return names
}

// titleWidth is what a box needs for title and sum.
func (s scale) titleWidth(b *box) int {
	if s.letter == 0 && len(b.hosts) > 0 {
		return 0
	}
	return 2*s.pad + 7*len([]rune(b.title)) + 6*len(b.sum) + 12
}

// rack sets hosts below one another, in several columns when there are many.
func (s scale) rack(b *box) {
	names := make([]string, 0, len(b.Children))
	cells, dots := 0, 0
	for _, d := range b.Children {
		names, cells, dots = append(names, d.Name), max(cells, s.bars(d)), max(dots, min(len(dotsOf(d)), maxDots))
	}
	if s.letter > 0 {
		names = shortNames(names, true)
		for _, n := range names {
			b.label = max(b.label, min(len([]rune(n)), maxLabel)*s.letter+6)
		}
		b.sum = ""
		if b.Amount != nil {
			b.sum = fmt.Sprintf("%d/%d", b.Used, b.Total)
		}
	} else {
		b.sum, dots = "", 0
	}
	column := b.label + cells + dots*dotStep + s.gap
	rows := min(len(names), s.perColumn)
	for i, d := range b.Children {
		b.hosts = append(b.hosts, host{Domain: d, name: names[i], x: s.pad + i/rows*column, y: s.rackHead + i%rows*s.row})
	}
	columns := (len(names) + rows - 1) / rows
	b.w, b.h = max(2*s.pad+columns*column-s.gap, s.titleWidth(b)), s.rackHead+rows*s.row+s.pad-2
}

// Of the pods that take none of the resource, and of labels.
const (
	maxDots  = 6
	dotStep  = 9
	maxLabel = 18
)

// bars is the width of a host's bar.
func (s scale) bars(d *tree.Domain) int {
	if d.Amount == nil {
		return 0
	}
	return int(min(max(d.Total, d.Used), widest)) * s.cell
}

// dotsOf are the pods of graphs on a host that take none of the resource.
func dotsOf(d *tree.Domain) []*tree.Pod {
	var list []*tree.Pod
	for _, p := range podsOn(d) {
		if p.Amount == 0 {
			list = append(list, p)
		}
	}
	return list
}

func podsOn(d *tree.Domain) []*tree.Pod {
	list := make([]*tree.Pod, 0, len(d.Pods)+len(d.Foreign))
	for _, pods := range [][]tree.Pod{d.Pods, d.Foreign} {
		for i := range pods {
			list = append(list, &pods[i])
		}
	}
	return list
}
