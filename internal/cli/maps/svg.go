// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package maps

import (
	"encoding/xml"
	"fmt"
	"strings"

	"github.com/trellis-k8s/trellis/internal/cli/tree"
)

// Widths of the drawing. A drawing for a document is minWidth to maxWidth wide. A drawing of many hosts may be screenWidth wide.
const (
	minWidth    = 660
	maxWidth    = 980
	screenWidth = 1600
)

// SVG draws the first tree, with colours for light and dark mode. The same map always results in the same text. SVG tries a layout for a
// document, then one for a screen, then tighter layouts. It uses the first layout whose drawing is no higher than a screen of the layout's
// width. If there are more than foldAbove hosts, it draws them without names.
func (m *Map) SVG() string {
	t, count := m.Trees[0], 0
	hosts(t.Cluster, func(*tree.Domain) { count++ })
	ways := []way{{roomy, maxWidth}, {roomy, screenWidth}, {tight, screenWidth}, {folded, screenWidth}}
	if count > foldAbove {
		ways = []way{{folded, maxWidth}, {folded, screenWidth}}
	}
	title := t.Topology
	if title == "" {
		title = "cluster"
	}
	body, width, height := "", 0, 0
	for _, w := range ways {
		if body, width, height = m.drawn(&t, title, w); height <= w.width*screenHeight/screenWidth {
			break
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" role=\"img\" "+
		"aria-label=\"%s\">\n", width, height, width, height, escape(title+": "+m.Sums[0].Text))
	b.WriteString(svgStyle() + svgPatterns + fmt.Sprintf("<rect class=\"page\" width=\"%d\" height=\"%d\"/>\n", width, height))
	b.WriteString(body + "</svg>\n")
	return b.String()
}

// screenHeight is the height of a screen whose width is screenWidth.
const screenHeight = 1000

// way is a layout in which a tree is drawn: its scale and width.
type way struct {
	scale
	width int
}

// drawn draws a tree in the layout w, and returns the size of the drawing.
func (m *Map) drawn(t *tree.Tree, title string, w way) (body string, width, height int) {
	g, top := w.layout(t.Cluster, title, w.width-2*margin)
	p := &pen{m: m, grid: g, tones: map[string]int{}}
	for i, g := range m.Graphs {
		p.tones[g.Namespace+"/"+g.Name] = i
	}
	width = max(minWidth, top.w+2*margin)
	p.text(margin, margin+12, "t", fontText.cut(m.Sums[0].Text, width-2*margin))
	y := p.legend(width, margin+34)
	p.box(top, margin, y)
	height = p.waiting(width, y+top.h+22)
	return p.String(), width, height
}

// margin around the drawing.
const margin = 10

// pen writes the elements of the drawing.
type pen struct {
	strings.Builder
	m *Map
	*grid
	tones map[string]int
}

func escape(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s)) // a Builder never fails
	return b.String()
}

func (p *pen) put(format string, args ...any) { fmt.Fprintf(p, format+"\n", args...) }

func (p *pen) text(x, y int, class, s string) {
	p.put("<text x=\"%d\" y=\"%d\" class=\"%s\">%s</text>", x, y, class, escape(s))
}

// maxNamed is the maximum number of graphs in the legend, which is the number of distinct combinations of colour and pattern. maxName is
// the maximum width of a name.
const maxNamed, maxName = 3 * graphTones, 230

// legend draws the names of the graphs with their colours, and the other symbols. It returns the y coordinate at which the map starts.
func (p *pen) legend(width, y int) int {
	x := margin
	item := func(name string, draw func(x, y int)) {
		w := 17 + fontText.width(name)
		if x+w > width-margin && x > margin {
			x, y = margin, y+18
		}
		draw(x, y-10)
		p.text(x+17, y, "t", name)
		x += w + 15
	}
	if graphs := p.m.Graphs; len(graphs) > maxNamed {
		item(fmt.Sprintf("pods of %d graphs", len(graphs)), func(x, y int) { p.fill(x, y, 12, 12, 0) })
	} else if len(graphs) > 0 {
		for i, g := range graphs {
			item(fontText.middle(p.m.NameOf(g.Namespace, g.Name), maxName), func(x, y int) { p.fill(x, y, 12, 12, i) })
		}
		x, y = margin, y+18
	}
	square := func(class, style string) func(x, y int) {
		return func(x, y int) {
			p.put("<rect class=\"%s\" x=\"%d\" y=\"%d\" width=\"12\" height=\"12\"%s/>", class, x, y, style)
		}
	}
	if p.letter > 0 {
		item("pod of a graph that takes no "+p.m.unit(), func(x, y int) { p.put("<circle class=\"c0\" cx=\"%d\" cy=\"%d\" r=\"4\"/>", x+6, y+6) })
	}
	item("other pods", square("other", ""))
	item("free", square("free frame", ""))
	item("host is cordoned or tainted", square("frame", " style=\"fill:url(#out)\""))
	item("host is not ready, or gone", square("frame", " style=\"fill:url(#lost)\""))
	if p.m.Sums[0].Overbooked > 0 {
		item("host is over-booked", square("other over", ""))
	}
	if len(p.m.Planned) > 0 {
		item("planned", func(x, y int) { square("other", "")(x, y); square("frame", " style=\"fill:url(#plan)\"")(x, y) })
	}
	return y + 10
}

// fill draws a rectangle in the colour of a graph, with stripes or dots if there are more graphs than colours.
func (p *pen) fill(x, y, w, h, graph int) {
	p.put("<rect class=\"c%d\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\"/>", graph%graphTones, x, y, w, h)
	if look := graph / graphTones % 3; look > 0 {
		p.put("<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"url(#look%d)\"/>", x, y, w, h, look)
	}
}

func (p *pen) box(b *box, x, y int) {
	p.put("<rect class=\"b%d\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"4\"/>", b.depth%2, x, y, b.w, b.h)
	size, baseline := "b", y+p.head-6
	if p.letter == 0 && len(b.hosts) > 0 {
		size, baseline = "b small", y+p.rackHead-4
	}
	p.text(x+p.pad, baseline, size, b.title)
	if b.sum != "" {
		p.text(x+b.w-p.pad, baseline, "sum", b.sum)
	}
	for _, kid := range b.boxes {
		p.box(kid, x+kid.x, y+kid.y)
	}
	for i := range b.hosts {
		p.host(&b.hosts[i], x+b.hosts[i].x, y+b.hosts[i].y)
	}
}

// host draws one host: its label, a bar of cells, and dots for pods that do not use the resource.
func (p *pen) host(h *host, x, y int) {
	if p.letter > 0 {
		p.text(x, y+p.bar-2, "label", h.name)
	}
	x += p.label
	width := p.barWidth(h.Domain)
	if cells := sizeOf(h.Domain); cells > 0 {
		p.put("<rect class=\"free\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\"/>", x, y, width, p.bar)
		p.runs(h, x, y, width, max(cells, h.Used))
		p.frame(h, x, y, width, cells)
	}
	if p.letter > 0 {
		p.dots(h, x+p.bars+2, y)
	}
}

// dots draws a dot for each pod of a host that does not use the resource. The dots are stacked in pairs. A plus sign represents further
// pods.
func (p *pen) dots(h *host, x, y int) {
	list := dotsOf(h.Domain)
	for i, pod := range list[:min(len(list), maxDots)] {
		left, top := x+i/2*dotStep, y+i%2*(p.bar-dotSize)
		if i == maxDots-1 && len(list) > maxDots {
			p.put("<path class=\"more\" d=\"M%d %dh%dM%d %dv%d\"><title>%d more pods</title></path>",
				left, top+dotSize/2, dotSize, left+dotSize/2, top, dotSize, len(list)-i)
			return
		}
		p.put("<circle class=\"%s\" cx=\"%d\" cy=\"%d\" r=\"%d\"><title>%s</title></circle>",
			p.class(pod), left+dotSize/2, top+dotSize/2, dotSize/2, escape(p.m.podText(pod)))
	}
}

// class returns the CSS class of a pod's colour.
func (p *pen) class(pod *tree.Pod) string {
	if pod.Graph == "" {
		return "other"
	}
	return fmt.Sprintf("c%d", p.tones[pod.Namespace+"/"+pod.Graph]%graphTones)
}

// runs draws the pods that use the resource into the bar of a host, from left to right.
func (p *pen) runs(h *host, x, y, width int, cells int64) {
	var used int64
	for _, pod := range podsOn(h.Domain) {
		if pod.Amount == 0 {
			continue
		}
		from, to := int(used*int64(width)/cells), int((used+pod.Amount)*int64(width)/cells)
		p.put("<g><title>%s</title>", escape(p.m.podText(pod)))
		if pod.Graph == "" {
			p.put("<rect class=\"other\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\"/>", x+from, y, to-from, p.bar)
		} else {
			p.fill(x+from, y, to-from, p.bar, p.tones[pod.Namespace+"/"+pod.Graph])
		}
		if pod.State == StatePlanned {
			p.put("<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"url(#plan)\"/>", x+from, y, to-from, p.bar)
		}
		p.put("</g>")
		used += pod.Amount
	}
}

// frame draws lines between the cells, and hatches a host that takes no pods.
func (p *pen) frame(h *host, x, y, width int, cells int64) {
	if p.letter > 0 && cells <= p.cells && h.Used <= cells {
		lines := ""
		for i := int64(1); i < cells; i++ {
			lines += fmt.Sprintf("M%d %dv%d", x+int(i)*p.cell, y, p.bar)
		}
		p.put("<path class=\"grid\" d=\"%s\"/>", lines)
	}
	style, class := "", "frame"
	if overbooked(h.Domain) > 0 {
		class = "frame over"
	}
	switch h.State {
	case "":
	case tree.StateNotReady, tree.StateGone:
		style = " style=\"fill:url(#lost)\""
	default: // cordoned or tainted
		style = " style=\"fill:url(#out)\""
	}
	p.put("<rect class=\"%s\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\"%s/>", class, x, y, width, p.bar, style)
}

// maxTold is the maximum number of reasons for waiting that are listed below the map.
const maxTold = 5

// waiting lists the unplaced replicas below the map, and returns the y coordinate at which the drawing ends.
func (p *pen) waiting(width, y int) int {
	for i, w := range p.m.Waiting {
		if i == maxTold {
			p.text(margin, y, "t", fmt.Sprintf("and %d more that wait", len(p.m.Waiting)-i))
			return y + 12
		}
		head := fmt.Sprintf("Waits: %s: %s", p.m.NameOf(w.Namespace, w.Graph), gangs(w.Who))
		p.text(margin, y, "t b bad", fontTitle.cut(head, width-2*margin))
		for _, line := range wrap(w.Reason+": "+w.Message, width-2*margin) {
			y += 16
			p.text(margin, y, "t", line)
		}
		y += 22
	}
	return y - 8
}
