// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package maps

import (
	"slices"

	"github.com/trellis-k8s/trellis/internal/cli/tree"
)

// foldAbove is the maximum number of hosts that a map shows with their names.
const foldAbove = 500

// scale holds the sizes of the drawing's elements, in pixels.
type scale struct {
	cell, row, bar int  // a cell's width, a host's height with the gap below it, and its bar's height
	head, rackHead int  // titles of boxes, and of racks
	pad, gap       int  // the space inside of a box, and that between boxes
	letter         int  // of a label; 0 leaves labels and dots out
	words          bool // labels have words, not only numbers
	perColumn      int  // hosts of a rack above one another
}

var (
	roomy  = scale{cell: 8, row: 16, bar: 12, head: 19, rackHead: 19, pad: 6, gap: 6, letter: 6, words: true, perColumn: 20}
	tight  = scale{cell: 8, row: 13, bar: 11, head: 17, rackHead: 17, pad: 4, gap: 4, letter: 6, perColumn: 20}
	folded = scale{cell: 4, row: 7, bar: 6, head: 18, rackHead: 14, pad: 4, gap: 3, perColumn: 40}
)

// box is a domain in the drawing. Positions are relative to the enclosing box.
type box struct {
	*tree.Domain
	title, sum string
	x, y, w, h int
	depth      int
	boxes      []*box
	hosts      []host
}

// host is one host, drawn as a line in the box of its rack.
type host struct {
	*tree.Domain
	name string
	x, y int
}

// grid is a layout in which all boxes of a level have the same width and are aligned in columns. Every host has the same space for dots, so
// that the pods in a box do not change the width of the box.
type grid struct {
	scale
	cells             int64 // of a host of the usual size
	label, bars, slot int   // widths of the parts of a host
	rack              int   // width of a rack
	columns           []int // by depth, above the racks
	least             []int // by depth, the width that the titles need
}

// maxLayouts bounds the number of column combinations that are compared.
const maxLayouts = 4096

// layout chooses the number of columns for each depth so that the drawing fits into the width, if possible, and is as low as possible.
func (s scale) layout(top *tree.Domain, title string, width int) (*grid, *box) {
	g := s.measure(top)
	var most []int
	g.count(top, title, 0, &most)
	var best size
	var chosen []int
	for i, columns := range combinations(most) {
		g.columns = columns
		if z := (size{g.width(0), g.height(top, 0)}); i == 0 || z.better(best, width) {
			best, chosen = z, columns
		}
	}
	g.columns = chosen
	g.stretch(top, width)
	return g, g.box(top, title, 0)
}

// maxCell is the maximum width to which cells are stretched.
const maxCell = 24

// stretch widens racks until they fill the width of the drawing, and then cells until they fill the racks or reach maxCell.
func (g *grid) stretch(top *tree.Domain, width int) {
	side, most, least := 1, 1, g.rack // racks side by side, and columns of hosts in one
	for _, n := range g.columns {
		side *= n
	}
	racks(top, func(d *tree.Domain) { most = max(most, (len(d.Children)+g.perColumn-1)/g.perColumn) })
	g.rack += max(0, width-g.width(0)) / side
	if g.cells == 0 {
		return
	}
	spare := (g.rack-2*g.pad+g.gap)/most - g.gap - g.host()
	wider := min(max(0, spare/int(g.cells)), maxCell-g.cell)
	g.cell, g.bars = g.cell+wider, g.bars+wider*int(g.cells)
	if g.cell == maxCell {
		g.rack = max(least, most*(g.host()+g.gap)-g.gap+2*g.pad)
	}
}

// size of a drawing.
type size struct{ w, h int }

// better reports whether a size suits the width better than another size. If both sizes fit into the width, the lower size is better, or
// the narrower size if the heights are equal. Otherwise the narrower size is better.
func (z size) better(o size, width int) bool {
	if fits := z.w <= width; fits != (o.w <= width) || !fits {
		return z.w < o.w
	}
	return z.h < o.h || z.h == o.h && z.w < o.w
}

// count finds, for each depth, the maximum number of boxes in one box and the width that the titles need.
func (g *grid) count(d *tree.Domain, title string, depth int, most *[]int) {
	if isRack(d) {
		return
	}
	if depth == len(*most) {
		*most, g.least = append(*most, 1), append(g.least, 0)
	}
	(*most)[depth] = max((*most)[depth], len(d.Children))
	g.least[depth] = max(g.least[depth], g.titleWidth(title, freeText(d)))
	for _, child := range d.Children {
		g.count(child, child.Title(), depth+1, most)
	}
}

// combinations returns the combinations of column counts to compare. For each depth and each possible number of rows, it uses the fewest
// columns that suffice.
func combinations(most []int) [][]int {
	all := [][]int{nil}
	for _, n := range most {
		var next [][]int
		for rows, last := 1, 0; rows <= n; rows++ {
			columns := (n + rows - 1) / rows
			if columns == last || len(next) > maxLayouts {
				continue
			}
			last = columns
			for _, c := range all {
				next = append(next, append(slices.Clone(c), columns))
			}
		}
		all = next
	}
	return all
}

// measure computes the widths that are the same for all racks.
func (s scale) measure(top *tree.Domain) *grid {
	g := &grid{scale: s, cells: usual(top)}
	dots, title := 0, 0
	racks(top, func(d *tree.Domain) {
		for i, name := range s.names(d.Children) {
			g.label = max(g.label, len([]rune(name))*s.letter+6)
			g.bars, dots = max(g.bars, g.barWidth(d.Children[i])), max(dots, min(len(dotsOf(d.Children[i])), maxDots))
		}
		if s.letter > 0 {
			title = max(title, s.titleWidth(d.Title(), freeText(d)))
		}
	})
	if s.letter == 0 {
		g.label, dots = 0, 0
	}
	if dots > 0 {
		g.slot = (dots+1)/2*dotStep + 2
	}
	g.rack = max(2*s.pad+g.host(), title)
	racks(top, func(d *tree.Domain) { // all racks are as wide as the largest
		columns := (len(d.Children) + s.perColumn - 1) / s.perColumn
		g.rack = max(g.rack, 2*s.pad+columns*(g.host()+s.gap)-s.gap)
	})
	return g
}

// host returns the width of a host.
func (g *grid) host() int { return g.label + g.bars + g.slot }

// width returns the width of a box at a depth.
func (g *grid) width(depth int) int {
	if depth >= len(g.columns) {
		return g.rack
	}
	return max(g.columns[depth]*(g.width(depth+1)+g.gap)-g.gap+2*g.pad, g.least[depth])
}

// height returns the height of a domain's box.
func (g *grid) height(d *tree.Domain, depth int) int {
	if isRack(d) {
		return g.rackHead + g.rackRows(d, depth)*g.row + g.pad - 2
	}
	h := g.head - g.gap
	for row := range slices.Chunk(d.Children, g.columns[depth]) {
		h += g.highest(row, depth+1) + g.gap
	}
	return max(h, g.head) + g.pad
}

// highest returns the height of a row of boxes.
func (g *grid) highest(row []*tree.Domain, depth int) int {
	h := 0
	for _, d := range row {
		h = max(h, g.height(d, depth))
	}
	return h
}

// rackRows returns the number of hosts in a column of a rack: at most perColumn, unless there is no space for enough columns.
func (g *grid) rackRows(d *tree.Domain, depth int) int {
	n := len(d.Children)
	columns := min(max(1, (g.width(depth)-2*g.pad+g.gap)/(g.host()+g.gap)), (n+g.perColumn-1)/g.perColumn)
	return (n + columns - 1) / columns
}

// box lays out a domain.
func (g *grid) box(d *tree.Domain, title string, depth int) *box {
	b := &box{Domain: d, title: title, sum: freeText(d), depth: depth, w: g.width(depth), h: g.height(d, depth)}
	if isRack(d) {
		g.fill(b)
		return b
	}
	b.title = fontTitle.cut(title, g.titleSpace(b))
	names, y := g.titles(d.Children), g.head
	for row := range slices.Chunk(d.Children, g.columns[depth]) {
		h := g.highest(row, depth+1)
		for i, child := range row {
			kid := g.box(child, names[len(b.boxes)], depth+1)
			kid.x, kid.y, kid.h = g.pad+i*(kid.w+g.gap), y, h
			b.boxes = append(b.boxes, kid)
		}
		y += h + g.gap
	}
	return b
}

// fill adds the hosts of a rack to its box, and sets their positions.
func (g *grid) fill(b *box) {
	if g.letter == 0 {
		b.sum = ""
		b.title = fontSmall.cut(b.title, g.titleSpace(b))
	} else {
		b.title = fontTitle.cut(b.title, g.titleSpace(b))
	}
	names := g.names(b.Children)
	rows := g.rackRows(b.Domain, b.depth)
	for i, d := range b.Children {
		b.hosts = append(b.hosts, host{Domain: d, name: names[i], x: g.pad + i/rows*(g.host()+g.gap), y: g.rackHead + i%rows*g.row})
	}
}

func isRack(d *tree.Domain) bool {
	return slices.ContainsFunc(d.Children, func(c *tree.Domain) bool { return c.Node })
}

// racks calls f for every domain that directly contains hosts.
func racks(d *tree.Domain, f func(*tree.Domain)) {
	if isRack(d) {
		f(d)
		return
	}
	for _, child := range d.Children {
		racks(child, f)
	}
}
