// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package capacity

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
)

// in is a gang of a namespace: its pods exist since so many minutes before the start.
func in(namespace, name string, n, minutes int) Gang {
	g := waits(name, n)
	g.Graph.Namespace, g.UID = namespace, types.UID(namespace+"/"+name)
	g.Since = start.Add(-time.Duration(minutes) * time.Minute)
	return g
}

// asked are the gangs that capacity is begun to be asked for, as NAMESPACE/NAME.
func asked(s Steps) (names []string) {
	for i := range s.Create {
		if ask := &s.Create[i]; ask.Fresh {
			names = append(names, ask.Gang.Graph.String())
		}
	}
	return names
}

// Five gangs of one namespace that no node comes for fill the bound one after another. The gang of another namespace is asked for as soon
// as one of them is given up, whatever their priority.
func TestGangsThatNoNodeComesFor(t *testing.T) {
	for _, priority := range []int32{0, 1000} {
		w := newWorld(64)
		for i := range 5 {
			g := in("noisy", fmt.Sprint("g", i), 63, 600)
			g.Priority = priority
			w.gangs = append(w.gangs, g)
		}
		for range 10 * time.Hour / time.Minute {
			w.now = w.now.Add(time.Minute)
			w.step()
		}
		quiet := in("quiet", "g", 2, 0)
		quiet.Since = w.now
		w.gangs = append(w.gangs, quiet)
		begun := w.now
		for !slices.Contains(asked(w.step()), "quiet/g") {
			if w.now = w.now.Add(time.Minute); w.now.Sub(begun) > Patience+time.Minute {
				t.Fatalf("priority %d: the gang of another namespace is not asked for within %s", priority, Patience)
			}
		}
	}
}

func TestOrder(t *testing.T) {
	for name, c := range map[string]struct {
		max   int
		gangs []Gang
		// retried are given up before.
		retried []string
		want    string
	}{
		"namespaces take turns": {
			4, []Gang{in("a", "1", 1, 90), in("a", "2", 1, 80), in("a", "3", 1, 70), in("b", "1", 1, 60), in("c", "1", 1, 50)}, nil, "a/1 b/1 c/1 a/2",
		},
		"each has a share of the pods, and the fourth, which does not fit, is by turn": {
			8, []Gang{in("a", "1", 4, 90), in("a", "2", 4, 80), in("b", "1", 1, 50), in("b", "2", 1, 40), in("b", "3", 1, 30)}, nil, "a/1 b/1 b/2",
		},
		"a gang that was given up is behind one that was not": {
			4, []Gang{in("a", "1", 2, 90), in("b", "1", 2, 60), in("b", "2", 2, 50)}, []string{"a/1"}, "b/1 b/2",
		},
		"whatever its priority": {
			2, []Gang{urgent(in("a", "1", 2, 90)), in("b", "1", 2, 60)}, []string{"a/1"}, "b/1",
		},
		"priority is before turns": {
			2, []Gang{in("a", "1", 1, 90), urgent(in("b", "1", 1, 60)), urgent(in("b", "2", 1, 50))}, nil, "b/1 b/2",
		},
		"except for one of four": {
			4, []Gang{in("a", "1", 1, 90), urgent(in("b", "1", 1, 60)), urgent(in("b", "2", 1, 50)), urgent(in("b", "3", 1, 40)), urgent(in("b", "4", 1, 30))},
			nil, "b/1 b/2 b/3 a/1",
		},
		"the priorities of those given up do not count": {
			1, []Gang{in("a", "1", 1, 90), urgent(in("b", "1", 1, 60))}, []string{"a/1", "b/1"}, "b/1", // both at one time: the priority decides
		},
		"what does not fit is not overtaken": {
			4, []Gang{in("a", "1", 3, 90), in("b", "1", 3, 60), in("c", "1", 1, 50)}, nil, "a/1",
		},
	} {
		w := newWorld(c.max, c.gangs...)
		for i := range w.gangs {
			if g := &w.gangs[i]; slices.Contains(c.retried, g.Graph.String()) {
				*w.planner.memoryOf(g.Ask()) = memory{pauses: 1, until: start}
			}
		}
		if got := strings.Join(asked(w.step()), " "); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

func urgent(g Gang) Gang {
	g.Priority = 1000
	return g
}

// Namespaces without waiting gangs are forgotten.
func TestTurnsAreForgotten(t *testing.T) {
	w := newWorld(64)
	for i := range 1000 {
		w.gangs = []Gang{in(fmt.Sprint("ns-", i), "g", 1, 60)}
		w.step()
		w.now = w.now.Add(time.Minute)
	}
	if n, most := len(w.planner.last), int((LongestPause+Patience)/time.Minute)+2; n > most {
		t.Errorf("%d namespaces are remembered, want at most %d", n, most)
	}
}

// tenants is a simulation over many hours: nodes come for some gangs, and for others never.
type tenants struct {
	*world
	// arrives is the time within which nodes come for a gang that can be placed.
	arrives time.Duration
	// good are the gangs that nodes come for, with the time at which they began to wait.
	good map[string]time.Time
	// recreate is the namespace that replaces each gang that is given up by a new one.
	recreate string
	created  int
}

// pass has some time pass: until the planner looks again, or nodes come.
func (w *tenants) pass() {
	s := w.step()
	next := w.now.Add(Patience)
	if !s.Next.IsZero() && s.Next.Before(next) {
		next = s.Next
	}
	if len(w.good) == 0 {
		next = w.now.Add(w.arrives)
	}
	w.now = next
	for _, ask := range asked(s) {
		delete(w.good, ask)
	}
	for _, note := range s.GivenUp {
		if namespace := note.Gang.Graph.Namespace; namespace == w.recreate {
			w.replace(note.Gang)
		}
	}
	w.gangs = slices.DeleteFunc(w.gangs, func(g Gang) bool { // it is placed when its nodes are there
		m := w.planner.asks[g.Ask()]
		return strings.HasPrefix(g.Graph.Name, "good") && m != nil && !m.since.IsZero() && w.now.Sub(m.since) >= w.arrives
	})
}

func (w *tenants) replace(old *Gang) {
	w.created++
	g := in(old.Graph.Namespace, fmt.Sprint("never-again-", w.created), old.Pods(), 0)
	g.Priority, g.Since = old.Priority, w.now.Add(-Settle)
	w.gangs = slices.DeleteFunc(w.gangs, func(g Gang) bool { return g.Ask() == old.Ask() })
	w.gangs = append(w.gangs, g)
}

// TestEveryNamespaceIsAskedFor: whatever gangs other namespaces have, of whatever size and priority, and even if these are replaced by new
// ones whenever they are given up: a gang that nodes would come for is asked for within turnEvery asks for each namespace, each of which
// takes patience at most.
func TestEveryNamespaceIsAskedFor(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		namespaces := rapid.IntRange(2, 5).Draw(t, "namespaces")
		w := &tenants{world: newWorld(64), good: map[string]time.Time{}, arrives: time.Duration(rapid.IntRange(1, 14).Draw(t, "arrives")) * time.Minute}
		w.recreate = rapid.SampledFrom([]string{"", "ns-1"}).Draw(t, "recreate")
		for n := range namespaces {
			if n == 0 { // its only gang is the one to look for
				continue
			}
			for i := range rapid.IntRange(1, 6).Draw(t, "gangs") {
				g := in(fmt.Sprint("ns-", n), fmt.Sprint("never-", i), rapid.IntRange(1, 64).Draw(t, "pods"), 100+i)
				g.Priority = int32(rapid.IntRange(0, 2).Draw(t, "priority"))
				w.gangs = append(w.gangs, g)
			}
		}
		for before := start.Add(time.Duration(rapid.IntRange(0, 12).Draw(t, "hours before")) * time.Hour); w.now.Before(before); {
			w.pass()
		}
		g := in("ns-0", "good", rapid.IntRange(1, 64).Draw(t, "pods"), 0)
		g.Since = w.now
		w.gangs = append(w.gangs, g)
		w.good[g.Graph.String()] = w.now
		// each ask may have to wait until all that stand have ended
		within := time.Duration(namespaces*turnEvery) * 2 * Patience
		for len(w.good) > 0 {
			if w.pass(); w.now.Sub(g.Since) > within {
				t.Fatalf("%d pods of %s are not asked for within %s", g.Pods(), g.Graph, within)
			}
		}
	})
}
