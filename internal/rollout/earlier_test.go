// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// TestSecondEditInTheMiddle edits a graph again in the middle of an update. Where one of the two generations that are there serves what has to stay, together
// with the newest one, that much serves at every moment. Otherwise both are needed, and rounding may cost one replica of the smallest component.
func TestSecondEditInTheMiddle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		number := func(from, to int, what string) int { return rapid.IntRange(from, to).Draw(t, what) }
		prefill := number(1, 4, "prefill")
		decode := prefill + number(0, 5, "more decode")
		surge := number(0, 1, "S")
		unavailable := number(1-surge, 1, "U")
		room := surge * (prefill + decode)
		f := newFleet(map[string]int{"prefill": prefill, "decode": decode}, shared(fmt.Sprint(unavailable), fmt.Sprint(surge)), prefill+decode+room)
		f.edit(1)
		for range number(1, 6, "rounds before") {
			f.round()
		}
		f.edit(2)
		for range 8 {
			checkRound(t, f, 100/prefill+1)
		}
	})
}

// checkRound lets everybody act once, with a look at what serves right after the replicas were removed.
func checkRound(t *rapid.T, f *fleet, rounding int) {
	f.decide()
	before, least := f.serves(), f.mayServe()
	if alone := f.servesAtMost(); alone < least {
		least -= rounding
	}
	for _, name := range f.names {
		f.control(name)
	}
	if f.serves() < min(before, least)-1 { // percents are rounded down
		t.Fatalf("the workers serve %d %%, before %d %%, and %d %% have to stay\n%s", f.serves(), before, least, f.log.String())
	}
	f.draw()
	for _, name := range f.names {
		for f.of[name].terminator() || f.place(name) || f.of[name].kubelet() {
		}
		f.report(name)
	}
}

// servesAtMost is how much of the graph the best earlier generation and the newest one serve, in percent.
func (f *fleet) servesAtMost() int {
	most, newest := part{0, 1}, f.of[f.names[0]].revision
	for earlier := range newest {
		most = most.max(f.servedBy(earlier))
	}
	sum := most.plus(f.servedBy(newest))
	return int(100 * sum.n / sum.d)
}

// TestKeeping decides of which generations replicas stay.
func TestKeeping(t *testing.T) {
	component := func(replicas, surge, updated int, earlier ...int) Component {
		c := Component{Replicas: replicas, Bounds: Bounds{MaxUnavailable: 1, MaxSurge: surge}, NewAvailable: updated}
		for i, n := range earlier {
			c.Earlier = append(c.Earlier, Earlier{generation(i), n})
		}
		return c
	}
	tests := map[string]struct {
		components []Component
		want       [][]Kept
	}{
		"one is enough: the one that serves most": {
			[]Component{component(2, 0, 0, 1, 1), component(4, 0, 0, 1, 2)}, [][]Kept{{{"v1", 1}}, {{"v1", 2}}},
		},
		"equally much: the first": {
			[]Component{component(2, 0, 0, 1, 1), component(2, 0, 0, 1, 1)}, [][]Kept{{{"v0", 1}}, {{"v0", 1}}},
		},
		"both are needed": {
			[]Component{component(4, 0, 0, 2, 1), component(4, 0, 0, 2, 1)}, [][]Kept{{{"v0", 2}, {"v1", 1}}, {{"v0", 2}, {"v1", 1}}},
		},
		"rounding leaves space for one new replica": {
			[]Component{component(4, 0, 0, 2, 1), component(5, 0, 0, 3, 2)}, [][]Kept{{{"v0", 2}, {"v1", 1}}, {{"v0", 3}, {"v1", 1}}},
		},
		"surge has space for it": {
			[]Component{component(4, 1, 0, 2, 1), component(5, 1, 0, 3, 2)}, [][]Kept{{{"v0", 3}, {"v1", 1}}, {{"v0", 3}, {"v1", 2}}},
		},
		"one serves nothing: it has no decode": {
			[]Component{component(2, 0, 0, 1, 1), component(2, 0, 0, 1, 0)}, [][]Kept{{{"v0", 1}}, {{"v0", 1}}},
		},
		"the new one serves enough": {[]Component{component(2, 0, 1, 1), component(2, 0, 1, 1)}, [][]Kept{nil, nil}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var got [][]Kept
			for _, step := range InStep(test.components) {
				got = append(got, step.Of)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
