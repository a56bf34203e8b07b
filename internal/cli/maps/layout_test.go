// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package maps

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/trellis-k8s/trellis/internal/cli/tree"
	"github.com/trellis-k8s/trellis/test/testutil/worlds"
)

// TestGrid: on a drawing of any cluster all boxes of a level are of one width and stand in columns, whatever pods are in them, and none
// overlaps another or leaves the box around it.
func TestGrid(t *testing.T) {
	for name, world := range map[string]func() (*worlds.Builder, error){
		"8": worlds.Small, "64": worlds.Medium, "96": worlds.TwoTopologies, "2000": worlds.Large,
	} {
		b, err := world()
		must(t, b, err)
		for _, drawn := range draw(t, b.World, "").Trees {
			s := roomy
			if name == "2000" {
				s = folded
			}
			_, top := s.layout(drawn.Cluster, drawn.Topology, maxWidth-2*margin)
			if top.w > maxWidth-2*margin {
				t.Errorf("%s by %s is %d wide", name, drawn.Topology, top.w)
			}
			onGrid(t, name+" by "+drawn.Topology, top)
		}
	}
}

// onGrid checks the boxes below one, and those of every depth against one another.
func onGrid(t *testing.T, name string, top *box) {
	t.Helper()
	widths, lefts := map[int][]int{}, map[int][]int{}
	var walk func(*box)
	walk = func(b *box) {
		widths[b.depth] = append(widths[b.depth], b.w)
		for i, kid := range b.boxes {
			lefts[kid.depth] = append(lefts[kid.depth], kid.x)
			if kid.x < 0 || kid.y < 0 || kid.x+kid.w > b.w || kid.y+kid.h > b.h {
				t.Errorf("%s: %s leaves %s", name, kid.title, b.title)
			}
			for _, other := range b.boxes[:i] {
				if kid.x < other.x+other.w && other.x < kid.x+kid.w && kid.y < other.y+other.h && other.y < kid.y+kid.h {
					t.Errorf("%s: %s overlaps %s in %s", name, kid.title, other.title, b.title)
				}
			}
			walk(kid)
		}
	}
	walk(top)
	for depth, list := range widths {
		if slices.Min(list) != slices.Max(list) {
			t.Errorf("%s: boxes at depth %d are %d to %d wide", name, depth, slices.Min(list), slices.Max(list))
		}
		slices.Sort(lefts[depth])
		for _, x := range slices.Compact(lefts[depth]) {
			if first := lefts[depth][0]; (x-first)%(list[0]+roomy.gap) != 0 && (x-first)%(list[0]+folded.gap) != 0 {
				t.Errorf("%s: a box at depth %d begins at %d, in no column", name, depth, x)
			}
		}
	}
}

// TestUnlabeled: hosts that lack a label of a level are on the grid as well.
func TestUnlabeled(t *testing.T) {
	b, err := worlds.Medium()
	must(t, b, err)
	for _, n := range b.Nodes[:9] {
		for key := range n.Labels {
			if strings.HasSuffix(key, "block") {
				delete(n.Labels, key)
			}
		}
	}
	top := draw(t, b.World, "").Trees[0].Cluster
	nameless := false
	racks(top, func(d *tree.Domain) { nameless = nameless || d.Name == "" })
	if !nameless {
		t.Fatal("every host has all labels")
	}
	_, drawn := roomy.layout(top, "", maxWidth-2*margin)
	onGrid(t, "without labels", drawn)
}

var amounts = regexp.MustCompile(`class="sum">([^<]*)<`)

// TestAmounts: every amount on a drawing is what is free, of all.
func TestAmounts(t *testing.T) {
	found := amounts.FindAllStringSubmatch(draw(t, small(t).World, "").SVG(), -1)
	if len(found) < 5 {
		t.Fatalf("%d amounts are drawn", len(found))
	}
	for _, m := range found {
		if !regexp.MustCompile(`^\d+ of \d+ free$`).MatchString(m[1]) {
			t.Errorf("an amount is drawn as %q", m[1])
		}
	}
}

// TestSVGLegend names every mark of a drawing.
func TestSVGLegend(t *testing.T) {
	svg := draw(t, small(t).World, worlds.Graph("team-b", "new", "rack", 2, 1, 2)).SVG()
	legend, _, _ := strings.Cut(svg, "datacenter</text>")
	for _, text := range []string{
		"team-a/chat", "pod of a graph that takes no GPUs", "other pods", "free", "host is cordoned or tainted", "host is not ready, or gone", "planned",
	} {
		if !strings.Contains(legend, ">"+text+"</text>") {
			t.Errorf("the legend lacks %q", text)
		}
	}
}

// TestWrap: lines are as full as the width allows, and no fuller.
func TestWrap(t *testing.T) {
	const text = "InsufficientCapacity: needs 4 pods x 8 nvidia.com/gpu in one rack; zone-1/block-0/rack-1 holds 3 of 4 (1 host short of nvidia.com/gpu)"
	for _, width := range []int{200, 500, 700} {
		lines := wrap(text, width)
		if strings.Join(lines, " ") != text {
			t.Errorf("%d: words are lost: %q", width, lines)
		}
		for i, line := range lines {
			if fontText.width(line) > width {
				t.Errorf("%d: %q is wider", width, line)
			}
			if i > 0 {
				word, _, _ := strings.Cut(line, " ")
				if fontText.width(lines[i-1]+" "+word) <= width {
					t.Errorf("%d: %q would have fitted into %q", width, word, lines[i-1])
				}
			}
		}
	}
	if lines := wrap("averyverylongwordthatcannotbebroken", 50); len(lines) != 1 {
		t.Errorf("a long word is broken: %q", lines)
	}
}
