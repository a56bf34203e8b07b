// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package tree

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/trellis-k8s/trellis/internal/cli"
)

// Draw selects the part of the cluster that a tree shows.
type Draw struct {
	// Level is the narrowest level to draw, with all of its domains. If Level is empty, only hosts with pods of the graphs are drawn, and
	// the domains that contain these hosts.
	Level string
	// Depth is the number of levels to draw; 0: all.
	Depth int
	// Free selects the domains with at least this free amount, and sorts them by free amount, the largest first; 0: all.
	Free int64
}

// overview is the maximum number of domains of one level that are drawn by default.
const overview = 40

// cut reduces every tree to the selected part, and sums up the other domains. levels are the levels of all hierarchies.
func (r *Overview) cut(draw Draw, levels []string) error {
	if draw.Level != "" && !slices.Contains(levels, draw.Level) {
		slices.SortFunc(levels, cli.Natural)
		return cli.NotFound(fmt.Sprintf("level %s", draw.Level), slices.Compact(levels), "no trees")
	}
	found, most := draw.Free == 0, mostFree{}
	for i := range r.Trees {
		t := &r.Trees[i]
		at := slices.Index(t.Levels, draw.Level)
		depth := len(t.Levels)
		switch {
		case at >= 0:
			depth = at + 1
		case draw.Depth == 0 && (len(r.Graphs) == 0 || draw.Free > 0):
			depth = t.overview()
		}
		if draw.Depth > 0 {
			depth = min(depth, draw.Depth)
		}
		if draw.Free > 0 {
			most.look(t.Cluster, nil, draw.asked(depth))
		}
		t.Cluster.prune(draw.keeps(t.Cluster, len(r.Graphs) == 0, depth), depth)
		found = found || len(t.Cluster.Children) > 0
		if draw.Free > 0 {
			t.Cluster.mostFreeFirst()
		}
	}
	if r.nothing = !found; r.nothing {
		r.Notes = append(r.Notes, most.note(draw.Free, r.Resource))
	}
	return nil
}

// asked returns the depth of the domains to which Free applies: the depth of the requested level, the requested depth, or else the depth of
// the broadest level.
func (draw Draw) asked(depth int) int {
	if draw.Level == "" && draw.Depth == 0 {
		return 1
	}
	return depth
}

// keeps returns the condition for drawing a domain. Nodes that lack a label are drawn only if pods of the graphs are on them.
func (draw Draw) keeps(cluster *Domain, noGraphs bool, depth int) func(*Domain) bool {
	switch {
	case draw.Free > 0 && draw.Level == "" && draw.Depth == 0:
		return func(d *Domain) bool { return d.Name != "" && d.Amount != nil && d.Amount.Free >= draw.Free }
	case draw.Free > 0:
		kept := map[*Domain]bool{}
		cluster.reach(draw.Free, depth, kept)
		return func(d *Domain) bool { return kept[d] }
	case draw.Level != "" || noGraphs:
		return func(d *Domain) bool { return d.Name != "" || d.holdsPods() }
	}
	return (*Domain).holdsPods
}

// reach marks the domains at a depth that have at least this free amount, and the domains that contain them. It treats a node above this
// depth like a domain at this depth.
func (d *Domain) reach(free int64, depth int, kept map[*Domain]bool) bool {
	if depth == 0 || d.Node {
		kept[d] = d.Name != "" && d.Amount != nil && d.Amount.Free >= free
		return kept[d]
	}
	for _, child := range d.Children {
		kept[d] = child.reach(free, depth-1, kept) || kept[d]
	}
	return kept[d]
}

// mostFree is the domain with the largest free amount so far.
type mostFree struct {
	level, path string
	free        int64
}

func (m *mostFree) look(d *Domain, path []string, depth int) {
	if depth > 0 && !d.Node {
		for _, child := range d.Children {
			m.look(child, append(slices.Clone(path), child.Name), depth-1)
		}
		return
	}
	if m.level == "" {
		m.level = d.Level
	}
	if d.Name != "" && d.Amount != nil && d.Amount.Free > m.free {
		m.level, m.path, m.free = d.Level, strings.Join(path, "/"), d.Amount.Free
	}
}

// note returns the text for the case that no domain has the requested free amount. The text names the domain with the largest free amount.
func (m *mostFree) note(free int64, resource string) string {
	said := fmt.Sprintf("No %s has %d %s free", cmp.Or(m.level, "domain"), free, cmp.Or(resource, gpus))
	if m.free == 0 {
		return said + "."
	}
	return fmt.Sprintf("%s: the most is %d in %s.", said, m.free, m.path)
}

// overview returns the number of levels to draw by default. The broadest level is always drawn. Narrower levels are drawn in order, until a
// level has more domains than the constant overview.
func (t *Tree) overview() int {
	counts := make([]int, len(t.Levels)+1)
	t.Cluster.count(counts, 0)
	depth := 1
	for depth < len(t.Levels) && counts[depth+1] <= overview {
		depth++
	}
	return depth
}

func (d *Domain) count(counts []int, depth int) {
	counts[depth]++
	for _, child := range d.Children {
		if depth+1 < len(counts) {
			child.count(counts, depth+1)
		}
	}
}

// fold reduces a domain to one line, which contains the pods of all domains below it.
func (d *Domain) fold() {
	for _, child := range d.Children {
		child.fold()
		d.Pods = append(d.Pods, child.Pods...)
	}
	slices.SortFunc(d.Pods, comparePods)
	d.Children, d.Others = nil, nil
}

func (d *Domain) mostFreeFirst() {
	slices.SortStableFunc(d.Children, func(a, b *Domain) int { return -cmp.Compare(a.Amount.Free, b.Amount.Free) })
	for _, child := range d.Children {
		child.mostFreeFirst()
	}
}

// prune keeps the selected domains down to a depth, and sums up the other domains.
func (d *Domain) prune(keep func(*Domain) bool, depth int) {
	if depth == 0 {
		d.fold()
		return
	}
	kept := d.Children[:0]
	others := Others{}
	var unlabeled *Others
	for _, child := range d.Children {
		switch {
		case keep(child):
			child.prune(keep, depth-1)
			kept = append(kept, child)
		case child.Name == "":
			unlabeled = &Others{Level: child.narrowest(), Count: child.nodes, Unlabeled: child.Level, Amount: child.Amount}
		default:
			others.Level, others.Amount = child.Level, others.Amount.add(child.Amount)
			others.Count++
		}
	}
	d.Children = kept
	if others.Count > 0 {
		d.Others = append(d.Others, others)
	}
	if unlabeled != nil {
		d.Others = append(d.Others, *unlabeled)
	}
}

func (d *Domain) holdsPods() bool {
	return len(d.Pods) > 0 || slices.ContainsFunc(d.Children, (*Domain).holdsPods)
}

// narrowest returns the level name of the nodes in a domain.
func (d *Domain) narrowest() string {
	for !d.Node {
		d = d.Children[0]
	}
	return d.Level
}
