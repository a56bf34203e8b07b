// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"strconv"
	"testing"
)

// TestLaggingView: a view that no one asked while more changed than the log keeps counts afresh.
func TestLaggingView(t *testing.T) {
	c := NewCluster()
	for i := range 8 {
		c.SetNode(makeNode("n"+strconv.Itoa(i), at("a", strconv.Itoa(i%2)), amounts{gpu: "8"}))
	}
	s := ShapeOf(makePod("p", "", amounts{gpu: "1"}))
	if got := fit(c, zoneRack, s, "a"); got != 64 {
		t.Fatalf("fit %d, want 64", got)
	}
	for i := range 3 * minLog {
		c.Assume("r"+strconv.Itoa(i%24), "n"+strconv.Itoa(i%8), s)
	}
	if got := fit(c, zoneRack, s, "a"); got != 40 {
		t.Errorf("fit %d beside 24 reservations, want 40", got)
	}
	if kept := len(c.log.entries); kept > minLog {
		t.Errorf("log keeps %d changes, want at most %d", kept, minLog)
	}
}

// TestViewsAreBounded: asking for ever new shapes neither grows without bound nor spoils the counts.
func TestViewsAreBounded(t *testing.T) {
	c := NewCluster()
	c.SetNode(makeNode("n", at("a", "1"), amounts{gpu: "1000"}))
	for round := range 2 {
		for i := 1; i <= 2*maxViews; i++ {
			s := ShapeOf(makePod("p", "", amounts{gpu: strconv.Itoa(i)}))
			if got, want := fit(c, zoneRack, s), min(1000/i, 110); got != want {
				t.Fatalf("round %d: %d pods of %d fit, want %d", round, got, i, want)
			}
		}
	}
	tree := c.Tree(zoneRack, nil)
	if len(tree.views) > maxViews || len(c.loads) > maxViews {
		t.Errorf("%d views and %d loads kept, want at most %d", len(tree.views), len(c.loads), maxViews)
	}
	c.DropTree(zoneRack, nil)
	if len(c.loads) != 0 {
		t.Errorf("%d loads kept without a tree or a pod", len(c.loads))
	}
}

// TestTooManyClasses: where nearly every domain is different there is no index, and it returns when they are alike again.
func TestTooManyClasses(t *testing.T) {
	c := NewCluster()
	for i := range maxClasses + 10 {
		c.SetNode(makeNode("n"+strconv.Itoa(i), at("a", strconv.Itoa(i)), amounts{gpu: strconv.Itoa(i + 1), "pods": "10000"}))
	}
	s := ShapeOf(makePod("p", "", amounts{gpu: "1"}))
	view := c.Tree(zoneRack, nil).View(s)
	if got := view.Classes(1); got != nil {
		t.Errorf("%d classes, want none", len(got))
	}
	for i := range maxClasses + 10 {
		c.SetNode(makeNode("n"+strconv.Itoa(i), at("a", strconv.Itoa(i)), amounts{gpu: "2"}))
	}
	var got []Class
	for range 4*maxClasses + 2 {
		got = view.Classes(1)
	}
	if len(got) != 1 || got[0].Fit != 2 || got[0].Domains != maxClasses+10 {
		t.Errorf("%d classes after all became alike, want one", len(got))
	}
}

// TestAbsurdAmounts: more pods than an int32 counts fit a domain, counted afresh and node by node.
func TestAbsurdAmounts(t *testing.T) {
	c := NewCluster()
	s := ShapeOf(makePod("p", "", nil))
	for i := range 3 {
		c.SetNode(makeNode("n"+strconv.Itoa(i), at("a", "1"), amounts{"pods": "1000000000"}))
		if got, want := fit(c, zoneRack, s, "a"), (i+1)*1_000_000_000; got != want {
			t.Errorf("%d nodes: fit %d, want %d", i+1, got, want)
		}
	}
	c.DropTree(zoneRack, nil)
	if got := fit(c, zoneRack, s, "a"); got != 3_000_000_000 {
		t.Errorf("counted afresh: fit %d", got)
	}
	if classes := c.Tree(zoneRack, nil).View(s).Classes(0); len(classes) != 1 || classes[0].Fit != 3_000_000_000 || classes[0].Biggest != 3_000_000_000 {
		t.Errorf("classes %+v", classes)
	}
}

// TestManyDomainsComeAndGo: domains that died leave no trace in the answers.
func TestManyDomainsComeAndGo(t *testing.T) {
	c := NewCluster()
	s := ShapeOf(makePod("p", "", amounts{gpu: "1"}))
	for i := range 500 {
		c.SetNode(makeNode("n", at("z"+strconv.Itoa(i), "1"), amounts{gpu: "2"}))
		if got := fit(c, zoneRack, s, "z"+strconv.Itoa(i), "1"); got != 2 {
			t.Fatalf("move %d: fit %d, want 2", i, got)
		}
		if i > 0 && fit(c, zoneRack, s, "z"+strconv.Itoa(i-1)) != -1 {
			t.Fatalf("move %d: the former zone is still there", i)
		}
	}
	if n := len(c.Tree(zoneRack, nil).domains); n > 200 {
		t.Errorf("%d domains kept for one node", n)
	}
}
