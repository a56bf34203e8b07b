// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package maps

import (
	"encoding/xml"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/trellis-k8s/trellis/internal/cli/explain"
	"github.com/trellis-k8s/trellis/internal/cli/tree"
	"github.com/trellis-k8s/trellis/test/testutil/simulated"
	"github.com/trellis-k8s/trellis/test/testutil/worlds"
)

func wall(t *testing.T, hosts int) *worlds.Builder {
	t.Helper()
	b, err := worlds.Wall(hosts)
	return must(t, b, err)
}

// picture is what an SVG draws, read from its elements.
type picture struct {
	XMLName xml.Name
	Width   int    `xml:"width,attr"`
	Height  int    `xml:"height,attr"`
	Rects   []rect `xml:"rect"`
	Texts   []struct {
		X     int    `xml:"x,attr"`
		Y     int    `xml:"y,attr"`
		Class string `xml:"class,attr"`
		Text  string `xml:",chardata"`
	} `xml:"text"`
}

type rect struct {
	Class  string `xml:"class,attr"`
	X      int    `xml:"x,attr"`
	Y      int    `xml:"y,attr"`
	Width  int    `xml:"width,attr"`
	Height int    `xml:"height,attr"`
}

func (r rect) has(x, y int) bool {
	return x >= r.X && x <= r.X+r.Width && y >= r.Y && y <= r.Y+r.Height
}

func parse(t *testing.T, svg string) *picture {
	t.Helper()
	p := &picture{}
	if err := xml.Unmarshal([]byte(svg), p); err != nil {
		t.Fatal(err)
	}
	if path := os.Getenv("TRELLIS_MAP_DIR"); path != "" { // to look at
		if err := os.WriteFile(fmt.Sprintf("%s/%s.svg", path, strings.ReplaceAll(t.Name(), "/", "-")), []byte(svg), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

// of are the rectangles of a class, such as free: the bars of hosts.
func (p *picture) of(class string) []rect {
	return slices.DeleteFunc(slices.Clone(p.Rects), func(r rect) bool { return r.Class != class })
}

// TestWallFits: clusters of 64, 400 and 2,000 hosts fit a screen, and fill its width.
func TestWallFits(t *testing.T) {
	for _, hosts := range []int{64, 400, 2000} {
		t.Run(fmt.Sprint(hosts), func(t *testing.T) {
			p := parse(t, draw(t, wall(t, hosts).World, "").SVG())
			if p.Width > 1600 || p.Height > 1000 || p.Width < 1560 {
				t.Errorf("the drawing is %d x %d", p.Width, p.Height)
			}
			if n := len(p.of("free")); n != hosts {
				t.Errorf("%d hosts are drawn", n)
			}
		})
	}
}

// TestTextStays: no text leaves the box or the line that it is in, and none runs into another or into the bar of its host.
func TestTextStays(t *testing.T) {
	b := wall(t, 64)
	for _, n := range b.Nodes[:5] {
		for key, value := range n.Labels {
			if strings.HasSuffix(key, "rack") {
				n.Labels[key] = value + "-with-a-name-longer-than-any-other-" + strings.Repeat("w", 20)
			}
		}
	}
	for name, m := range map[string]*Map{"64": draw(t, b.World, ""), "400": draw(t, wall(t, 400).World, ""), "2000": draw(t, wall(t, 2000).World, "")} {
		t.Run(name, func(t *testing.T) { staysInside(t, parse(t, m.SVG())) })
	}
}

func staysInside(t *testing.T, p *picture) {
	t.Helper()
	boxes, bars := append(p.of("b0"), p.of("b1")...), p.of("free")
	fonts := map[string]font{"t": fontText, "b": fontTitle, "b small": fontSmall, "sum": fontSum, "t b bad": fontTitle}
	inside := 0
	ends := map[string]int{} // of titles, by the place of their box and line
	for _, text := range p.Texts {
		y := text.Y - 4
		around := rect{Width: p.Width, Height: p.Height}
		for _, b := range boxes {
			if b.has(text.X, y) && b.Width <= around.Width && b.Height <= around.Height {
				around = b
			}
		}
		if around.X > 0 {
			inside++
		}
		left, width := text.X, fonts[text.Class].width(text.Text)
		line := fmt.Sprint(around, text.Y)
		switch text.Class {
		case "label":
			width = 6 * len([]rune(text.Text))
			for _, bar := range bars {
				if bar.has(bar.X, y) && bar.X > left && bar.X < left+width {
					t.Errorf("%q of %v runs into a bar", text.Text, around)
				}
			}
		case "sum":
			if left -= width; ends[line] > left {
				t.Errorf("%q runs into the title of its box", text.Text)
			}
		default:
			ends[line] = left + width
		}
		if left < around.X || left+width > around.X+around.Width {
			t.Errorf("%q at %d, %d wide, leaves %v", text.Text, left, width, around)
		}
	}
	if inside < 50 {
		t.Errorf("only %d texts are in boxes", inside)
	}
}

// TestCells: hosts of one size have bars of one width, smaller ones narrower bars in proportion, and a host with more pods than it has GPUs
// changes nothing but itself.
func TestCells(t *testing.T) {
	b := wall(t, 64)
	b.Pods = slices.DeleteFunc(b.Pods, func(p *corev1.Pod) bool { return p.Spec.NodeName == b.Nodes[worlds.WallOverbooked].Name })
	before, size := bars(t, b)
	widths, i := map[int64]int{}, 0
	hosts(draw(t, b.World, "").Trees[0].Cluster, func(d *tree.Domain) {
		if w := widths[d.Total]; w != 0 && w != before[i] {
			t.Errorf("bars of hosts of %d GPUs are %d and %d wide", d.Total, w, before[i])
		}
		widths[d.Total] = before[i]
		i++
	})
	if widths[8] == 0 || widths[72] != widths[8] || 2*widths[4] != widths[8] {
		t.Errorf("widths of bars by GPUs of a host: %v", widths)
	}
	few := worlds.New(simulated.Shape{Zones: 1, Blocks: 1, Racks: 2, Hosts: 2, GPUs: 8})
	alone, narrow := bars(t, few)
	few.Occupy(1, 24)
	for b, want := range map[*worlds.Builder][]int{b: append(before, size), few: append(alone, narrow)} {
		b.Occupy(worlds.WallOverbooked, 24)
		after, width := bars(t, b)
		if diff := cmp.Diff(want, append(after, width)); diff != "" {
			t.Errorf("bars of %d hosts, and the drawing (-without +with over-booked hosts):\n%s", len(b.Nodes), diff)
		}
	}
}

// bars are the widths of the bars of hosts, and that of the drawing.
func bars(t *testing.T, b *worlds.Builder) (widths []int, size int) {
	t.Helper()
	p := parse(t, draw(t, b.World, "").SVG())
	for _, r := range p.of("free") {
		widths = append(widths, r.Width)
	}
	return widths, p.Width
}

// TestSums: what the header counts adds up to what there is; what pods use beyond that is counted apart.
func TestSums(t *testing.T) {
	for name, world := range map[string]func() (*worlds.Builder, error){
		"8": worlds.Small, "64": worlds.Medium, "96": worlds.TwoTopologies, "wall": func() (*worlds.Builder, error) { return worlds.Wall(64) },
	} {
		b, err := world()
		must(t, b, err)
		var total int64
		for _, n := range b.Nodes {
			q := n.Status.Allocatable["nvidia.com/gpu"]
			total += q.Value()
		}
		m := draw(t, b.World, "")
		if len(m.Sums) != len(m.Trees) {
			t.Fatalf("%s: %d sums of %d trees", name, len(m.Sums), len(m.Trees))
		}
		for i, s := range m.Sums {
			if s.Free+s.Used+s.Closed != s.Total || s.Total != total || s.Hosts != len(b.Nodes) || s.Free != m.Trees[i].Cluster.Free {
				t.Errorf("%s: %+v of %d GPUs on %d hosts", name, s, total, len(b.Nodes))
			}
			if over := strings.Contains(s.Text, "and 16 over-booked"); over != (name == "wall") {
				t.Errorf("%s: the header is %q", name, s.Text)
			}
			for _, part := range []string{fmt.Sprintf("%d of %d GPUs free", s.Free, s.Total), fmt.Sprintf("%d used", s.Used), fmt.Sprintf("%d on hosts", s.Closed)} {
				if !strings.Contains(s.Text, part) {
					t.Errorf("%s: %q is not in the header %q", name, part, s.Text)
				}
			}
			if !strings.Contains(m.SVG(), ">"+m.Sums[0].Text+"<") {
				t.Errorf("%s: the drawing lacks the header", name)
			}
		}
	}
}

// TestVerdict: a plan fits only when all of it is placed, and nothing else waits.
func TestVerdict(t *testing.T) {
	one, two := worlds.Graph("team-b", "new", "rack", 1, 1, 2), worlds.Graph("team-b", "newer", "rack", 1, 1, 2)
	large := worlds.Graph("team-b", "large", "rack", 1, 4, 8)
	for name, tc := range map[string]struct {
		plan  string
		waits bool
		want  string
	}{
		"no plan":                     {"", true, ""},
		"all of it, and nothing else": {one + "---" + two, false, "the plan fits"},
		"all of it, others wait":      {one + "---" + two, true, "all of the plan is placed, 1 other deployment still waiting"},
		"a part":                      {one + "---" + large, false, "1 of 2 deployments of the plan fit"},
	} {
		b := small(t)
		if !tc.waits {
			b.Graphs, b.Groups = b.Graphs[:1], b.Groups[:2]
		}
		header := draw(t, b.World, tc.plan).Sums[0].Text
		if parts := strings.Split(header, " \u00b7 "); tc.want != "" && parts[len(parts)-1] != tc.want || tc.want == "" && strings.Contains(header, "plan") {
			t.Errorf("%s: the header is %q, want %q", name, header, tc.want)
		}
	}
}

// TestItFits: hosts to free are said to place what waits only when they place all replicas of it.
func TestItFits(t *testing.T) {
	for replicas, want := range map[int][]explain.Gangs{1: nil, 2: {{Component: "Worker", Replicas: []int{0}}}} {
		b := worlds.New(simulated.Shape{Zones: 1, Blocks: 1, Racks: 2, Hosts: 4, GPUs: 8})
		for host := range 5 { // all of one rack, and one host of the other
			b.Occupy(host, 8)
		}
		if err := b.Apply(worlds.Graph("team-a", "large", "rack", replicas, 4, 8)); err != nil {
			t.Fatal(err)
		}
		w := draw(t, b.World, "").Waiting
		if len(w) != 1 || len(w[0].Who[0].Replicas) != replicas || len(w[0].Freeing) != 1 {
			t.Fatalf("%d replicas: %+v", replicas, w)
		}
		if diff := cmp.Diff(want, w[0].FreeingFits); diff != "" {
			t.Errorf("%d replicas: what fits then (-want +got):\n%s", replicas, diff)
		}
	}
}
