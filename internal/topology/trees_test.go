// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

func TestTrees(t *testing.T) {
	c := NewCluster()
	shape := ShapeOf(makePod("p", "", amounts{gpu: "1"}))
	for name, labels := range map[string]map[string]string{"a1": at("a", "1"), "b1": at("b", "1"), "a": at("a", ""), "none": at("", "1")} {
		c.SetNode(makeNode(name, labels, amounts{gpu: "2"}))
	}
	got := map[string]int{}
	for _, p := range []Path{nil, {"a"}, {"a", "1"}, {"b"}, {"b", "1"}} {
		got[p.String()] = fit(c, zoneRack, shape, p...)
	}
	want := map[string]int{"": 8, "a": 4, "a/1": 2, "b": 2, "b/1": 2}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("one rack value under two zones, labels down to the first missing (-want +got):\n%s", diff)
	}
	if got := fit(c, nil, shape); got != 8 {
		t.Errorf("no levels: root holds %d, want 8", got)
	}
	if c.Tree(zoneRack, nil) != c.Tree(Levels{{"zone", "z"}, {"rack", "r"}}, map[string]string{}) {
		t.Error("the same levels gave two trees")
	}
	c.KeepTrees(func(levels Levels, _ map[string]string) bool { return len(levels) > 0 })
	if len(c.trees) != 1 {
		t.Errorf("%d trees kept, want 1", len(c.trees))
	}
}

func TestDomainsInside(t *testing.T) {
	c := NewCluster()
	levels := Levels{{"zone", "z"}, {"block", "b"}, {"rack", "r"}}
	for _, p := range []Path{{"a", "1", "x"}, {"a", "1", "y"}, {"a", "2", "x"}, {"b", "1", "x"}, {"a-b", "1", "x"}} {
		c.SetNode(makeNode("n"+p.String(), levels.Selector(p), amounts{gpu: "2"}))
	}
	tree := c.Tree(levels, nil)
	cases := map[string]struct {
		level int
		in    Path
		want  []string
	}{
		"racks of the cluster": {level: 2, want: []string{"a/1/x", "a/1/y", "a/2/x", "a-b/1/x", "b/1/x"}},
		"racks of a zone":      {level: 2, in: Path{"a"}, want: []string{"a/1/x", "a/1/y", "a/2/x"}},
		"blocks of a zone":     {level: 1, in: Path{"a"}, want: []string{"a/1", "a/2"}},
		"a zone itself":        {level: 0, in: Path{"b"}, want: []string{"b"}},
		"zones of a rack":      {level: 0, in: Path{"b", "1", "x"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			d, _ := tree.Find(tc.in)
			var got []string
			for _, x := range tree.Domains(tc.level, d) {
				got = append(got, tree.Path(x).String())
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("domains (-want +got):\n%s", diff)
			}
		})
	}
}

func TestScan(t *testing.T) {
	levels := Levels{{"zone", "z"}, {"rack", "r"}, {"host", corev1.LabelHostname}}
	host := func(labels map[string]string, name string) map[string]string {
		labels[corev1.LabelHostname] = name
		return labels
	}
	nodes := []*corev1.Node{
		makeNode("n1", host(at("a", "1"), "h1"), nil),
		makeNode("n2", host(at("b", "1"), "h2"), nil),
		makeNode("n3", host(at("b", "1"), "h2"), nil),
		makeNode("n4", host(at("", "1"), "h4"), nil),
		makeNode("n5", at("a", ""), nil),
	}
	want := Scan{
		Nodes: 5,
		Levels: []LevelScan{
			{Level: levels[0], Domains: 2, Nodes: 4, Missing: 1, MissingNodes: []string{"n4"}, MissingLabel: 1},
			{Level: levels[1], Domains: 2, Nodes: 3, Missing: 2, MissingNodes: []string{"n5"}, MissingLabel: 1},
			{Level: levels[2], Domains: 2, Nodes: 3, Missing: 2, MissingNodes: []string{"n5"}, MissingLabel: 1},
		},
		Duplicates:     []Duplicate{{Value: "h2", Nodes: []string{"n2", "n3"}, Count: 2}},
		DuplicateCount: 1,
	}
	if diff := cmp.Diff(want, ScanNodes(nodes, levels, nil)); diff != "" {
		t.Errorf("scan (-want +got):\n%s", diff)
	}
	if got := ScanNodes(nodes, levels, map[string]string{"z": "a"}).Nodes; got != 2 {
		t.Errorf("%d nodes in the pool, want 2", got)
	}
}

func TestLevelsAndPaths(t *testing.T) {
	p := zoneRack.PathOf(map[string]string{"z": "a", "r": "1"})
	checks := map[string]bool{
		"index":               zoneRack.Index("rack") == 1 && zoneRack.Index("x") == NoLevel,
		"index of key":        zoneRack.IndexOfKey("z") == 0 && zoneRack.IndexOfKey("x") == NoLevel,
		"string":              p.String() == "a/1",
		"stops at a gap":      len(zoneRack.PathOf(map[string]string{"r": "1"})) == 0,
		"equal":               p.Equal(Path{"a", "1"}) && !p.Equal(Path{"a"}),
		"contains":            Path{"a"}.Contains(p) && p.Contains(p) && !p.Contains(Path{"a"}) && Path{}.Contains(p) && !Path{"b"}.Contains(p),
		"truncate":            p.Truncate(0).Equal(Path{"a"}) && len(p.Truncate(NoLevel)) == 0 && p.Truncate(5).Equal(p),
		"selector":            cmp.Equal(zoneRack.Selector(p), map[string]string{"z": "a", "r": "1"}),
		"selector of no path": len(zoneRack.Selector(nil)) == 0,
	}
	for name, ok := range checks {
		if !ok {
			t.Error(name)
		}
	}
}
