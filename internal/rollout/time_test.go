// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"strings"
	"testing"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
)

// starts counts in a log how often replicas are made, one time after the other, and how many they are.
func starts(log string) (times, replicas int) {
	making := false
	for line := range strings.Lines(log) {
		if !strings.HasPrefix(line, "  ") {
			making = false
			continue
		}
		if !strings.Contains(line, "make ") {
			continue
		}
		if replicas++; !making {
			times++
		}
		making = true
	}
	return times, replicas
}

// TestTimeOfAnUpdate compares an update in step with one in which each component is updated by itself, replica by replica: how many starts one after the
// other it takes, and how many replicas are made. docs/dev/generations.md has these numbers.
func TestTimeOfAnUpdate(t *testing.T) {
	pair := map[string]int{"prefill": 2, "decode": 4}
	cases := map[string]struct {
		replicas              map[string]int
		strategy              trellisv1alpha1.RolloutStrategy
		capacity              int
		inStep, byItself, all int
	}{
		"full cluster":  {pair, shared("1", "0"), 6, 2, 4, 6},
		"one step more": {pair, shared("0", "1"), 9, 2, 4, 6},
		"4 and 8":       {map[string]int{"prefill": 4, "decode": 8}, shared("1", "0"), 12, 4, 8, 12},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			f := newFleet(c.replicas, c.strategy, c.capacity)
			f.edit(1)
			if !f.settle() {
				t.Fatalf("it does not settle:\n%s", f.log.String())
			}
			if times, all := starts(f.log.String()); times != c.inStep || all != c.all {
				t.Errorf("in step: %d starts of %d replicas, want %d of %d:\n%s", times, all, c.inStep, c.all, f.log.String())
			}
			longest, made := 0, 0
			for _, n := range c.replicas {
				bounds := BoundsOf(&c.strategy, n)
				s := newSimulation(Group{Replicas: n, MaxUnavailable: bounds.MaxUnavailable, MaxSurge: bounds.MaxSurge}, n+bounds.MaxSurge)
				s.revision = 1
				if !s.settle() {
					t.Fatal("it does not settle")
				}
				times, all := starts(s.log.String())
				longest, made = max(longest, times), made+all
			}
			if longest != c.byItself || made != c.all {
				t.Errorf("replica by replica: %d starts of %d replicas, want %d of %d", longest, made, c.byItself, c.all)
			}
		})
	}
}
