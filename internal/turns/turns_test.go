// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package turns

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var begin = time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)

// at is a graph NAMESPACE/NAME, created so many minutes after the beginning.
func at(name string, minute int, priority int32) Turn {
	namespace, name, _ := strings.Cut(name, "/")
	return Turn{Namespace: namespace, Name: name, Priority: priority, Created: begin.Add(time.Duration(minute) * time.Minute)}
}

func drain(l *Line) (names []string) {
	for g, ok := l.Next(); ok; g, ok = l.Next() {
		names = append(names, g.Namespace+"/"+g.Name)
	}
	return names
}

func TestNext(t *testing.T) {
	cases := map[string]struct {
		graphs []Turn
		want   string
	}{
		"one namespace: the oldest first": {[]Turn{at("a/2", 2, 0), at("a/1", 1, 0), at("a/3", 3, 0)}, "a/1 a/2 a/3"},
		"many of one, one of another":     {[]Turn{at("a/1", 1, 0), at("a/2", 2, 0), at("a/3", 3, 0), at("b/1", 9, 0)}, "a/1 b/1 a/2 a/3"},
		"three namespaces in turn":        {[]Turn{at("a/1", 1, 0), at("a/2", 4, 0), at("b/1", 2, 0), at("b/2", 5, 0), at("c/1", 3, 0), at("c/2", 6, 0)}, "a/1 b/1 c/1 a/2 b/2 c/2"},
		"priority before turns":           {[]Turn{at("a/1", 1, 0), at("a/2", 2, 5), at("a/3", 3, 5), at("b/1", 4, 0), at("b/2", 5, 5)}, "a/2 b/2 a/3 a/1 b/1"},
		"created at one time":             {[]Turn{at("b/1", 1, 0), at("a/2", 1, 0), at("a/1", 1, 0)}, "a/1 b/1 a/2"},
		"twice is once":                   {[]Turn{at("a/1", 1, 0), at("a/1", 1, 0)}, "a/1"},
		"another priority than before":    {[]Turn{at("a/1", 1, 0), at("a/2", 2, 0), at("a/2", 2, 9)}, "a/2 a/1"},
		"nothing":                         {nil, ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var l Line
			for _, g := range c.graphs {
				l.Add(g)
			}
			if got := strings.Join(drain(&l), " "); got != c.want || l.Len() != 0 || len(l.priorities) != 0 {
				t.Errorf("order %q, want %q; %d left", got, c.want, l.Len())
			}
		})
	}
}

// A namespace that comes again and again is served once between two turns of another one, not each time.
func TestNobodyIsPassedTwice(t *testing.T) {
	var l Line
	for i := range 10 {
		l.Add(at(fmt.Sprintf("patient/%d", i), 100+i, 0))
	}
	for turn := range 10 {
		l.Add(at("busy/again", turn, 0))
		first, _ := l.Next()
		l.Add(at("busy/again", turn, 0))
		second, _ := l.Next()
		if first.Namespace == second.Namespace {
			t.Fatalf("turn %d: %s is served twice in succession", turn, first.Namespace)
		}
	}
}

// Namespaces come and go while one is always in line: those that are gone are forgotten, and those in line keep their turns.
func TestNamespacesThatAreGoneAreForgotten(t *testing.T) {
	var l Line
	for i := range 20000 {
		l.Add(at(fmt.Sprintf("standing/%d", i), i, 0))
		l.Add(at(fmt.Sprintf("passing-%d/1", i), i, 0))
		first, _ := l.Next()
		second, _ := l.Next()
		if first.Namespace == second.Namespace {
			t.Fatalf("turn %d: %s is served twice in succession", i, first.Namespace)
		}
		l.Add(at("standing/last", i, 0)) // the line is never empty
	}
	if n := len(l.priorities[0].last); n > 2*maxRemembered {
		t.Errorf("%d namespaces are remembered", n)
	}
}

// The only graph in line is created again: it is still its namespace's turn.
func TestChangedGraphKeepsItsTurn(t *testing.T) {
	var l Line
	l.Add(at("a/1", 0, 1))
	l.Add(at("b/0", 0, 1))
	if g, _ := l.Next(); g.Namespace != "b" {
		t.Fatalf("%+v was taken first", g)
	}
	l.Add(at("a/1", 1, 1))
	l.Add(at("b/0", 0, 1))
	if g, _ := l.Next(); g.Namespace != "a" {
		t.Errorf("%s was taken twice while a was in line", g.Namespace)
	}
}

// Whatever is added, removed and taken: no graph of a lower priority is taken while one of a higher is in line, each namespace brings its oldest,
// and one with something in line is taken after at most one graph of each other namespace of its priority.
func TestTurnsAreFair(t *testing.T) {
	t.Run("as much is remembered as usual", turnsAreFair)
	maxRemembered = 0
	defer func() { maxRemembered = usuallyRemembered }()
	t.Run("as little as may be", turnsAreFair)
}

func turnsAreFair(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var l Line
		inLine := map[string]Turn{}
		passed := map[string]map[string]int{} // "namespace priority": how often the others were taken since
		key := func(g Turn) string { return fmt.Sprint(g.Namespace, " ", g.Priority) }
		for range rapid.IntRange(1, 120).Draw(t, "steps") {
			switch rapid.IntRange(0, 5).Draw(t, "step") {
			case 0, 1, 2:
				name := fmt.Sprintf("%c/%d", 'a'+rapid.IntRange(0, 3).Draw(t, "namespace"), rapid.IntRange(0, 5).Draw(t, "name"))
				g := at(name, rapid.IntRange(0, 9).Draw(t, "minute"), int32(rapid.IntRange(0, 2).Draw(t, "priority")))
				l.Add(g)
				inLine[name] = g
			case 3:
				if names := names(inLine); len(names) > 0 {
					name := rapid.SampledFrom(names).Draw(t, "removed")
					l.Remove(inLine[name].Namespace, inLine[name].Name)
					delete(inLine, name)
				}
			default:
				g, ok := l.Next()
				if ok != (len(inLine) > 0) {
					t.Fatalf("Next says %v with %d in line", ok, len(inLine))
				}
				if !ok {
					continue
				}
				delete(inLine, g.Namespace+"/"+g.Name)
				delete(passed, key(g))
				for _, other := range inLine {
					if other.Priority > g.Priority {
						t.Fatalf("%+v was taken before %+v", g, other)
					}
					if other.Namespace == g.Namespace && other.Priority == g.Priority && older(other, g) < 0 {
						t.Fatalf("%+v was taken before the older %+v", g, other)
					}
				}
				for k := range passed {
					if strings.HasSuffix(k, fmt.Sprint(" ", g.Priority)) {
						if passed[k][g.Namespace]++; passed[k][g.Namespace] > 1 {
							t.Fatalf("%s was taken twice while %q was in line", g.Namespace, k)
						}
					}
				}
			}
			follow(inLine, passed, key)
			if l.Len() != len(inLine) {
				t.Fatalf("%d in line, want %d", l.Len(), len(inLine))
			}
		}
	})
}

// follow begins to count for those that are new in line, and ends for those that are not in line any more.
func follow(inLine map[string]Turn, passed map[string]map[string]int, key func(Turn) string) {
	there := map[string]bool{}
	for _, g := range inLine {
		there[key(g)] = true
		if passed[key(g)] == nil {
			passed[key(g)] = map[string]int{}
		}
	}
	for k := range passed {
		if !there[k] {
			delete(passed, k)
		}
	}
}

func names(inLine map[string]Turn) []string {
	var out []string
	for name := range inLine {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}
