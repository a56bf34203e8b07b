// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package capacity

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// However gangs come and go, and objects are lost: no more pods are asked for than the bound, each gang whole, in turn, and of those that wait only;
// and when all gangs are gone nothing is left.
func TestAsksProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(rapid.IntRange(1, 8).Draw(t, "bound"))
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			change(t, w)
			w.step()
			w.check(t)
		}
		w.gangs = nil
		w.step()
		if len(w.placeholders)+len(w.requests) > 0 {
			t.Fatalf("left are %v, %v", w.placeholders, w.requests)
		}
	})
}

func change(t *rapid.T, w *world) {
	switch rapid.IntRange(0, 5).Draw(t, "change") {
	case 0, 1:
		g := waits(fmt.Sprint(len(w.gangs), w.now.Unix()), rapid.IntRange(1, 5).Draw(t, "pods"))
		g.Kind = rapid.SampledFrom(Kinds).Draw(t, "kind")
		g.Priority = int32(rapid.IntRange(0, 2).Draw(t, "priority"))
		w.gangs = append(w.gangs, g)
	case 2:
		if len(w.gangs) > 0 {
			i := rapid.IntRange(0, len(w.gangs)-1).Draw(t, "gone")
			w.gangs = slices.Delete(w.gangs, i, i+1)
		}
	case 3:
		if len(w.placeholders) > 0 {
			i := rapid.IntRange(0, len(w.placeholders)-1).Draw(t, "lost")
			w.placeholders = slices.Delete(w.placeholders, i, i+1)
		}
	case 4:
		w.planner = Planner{Limits: w.planner.Limits}
	}
	w.now = w.now.Add(time.Duration(rapid.IntRange(1, 1200).Draw(t, "seconds")) * time.Second)
}

func (w *world) check(t *rapid.T) {
	asked := map[string]int{}
	for _, p := range w.placeholders {
		asked[p.Ask]++
	}
	known, total := map[string]int{}, 0
	for i := range w.gangs {
		known[w.gangs[i].Ask()] = w.gangs[i].Pods()
	}
	for _, one := range w.requests {
		asked[one.Ask] = known[one.Ask]
	}
	for ask, n := range asked {
		if n == 0 || n != known[ask] {
			t.Fatalf("%d pods are asked for of a gang with %d", n, known[ask])
		}
		total += n
	}
	if total > w.planner.MaxPods {
		t.Fatalf("%d pods are asked for, at most %d may be", total, w.planner.MaxPods)
	}
}
