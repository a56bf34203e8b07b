// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"
)

// TestPartOf reads partitions.
func TestPartOf(t *testing.T) {
	pair := []Component{{Replicas: 2}, {Replicas: 4}, {Replicas: 0}}
	for value, want := range map[string][]int{"0": {0, 0}, "1": {1, 2}, "2": {2, 4}, "9": {2, 4}, "0%": {0, 0}, "10%": {1, 1}, "50%": {1, 2}, "51%": {2, 3}, "300%": {2, 4}} {
		p := partOf(intstr.Parse(value), pair)
		if diff := cmp.Diff(want, []int{p.of(2), p.of(4)}); diff != "" {
			t.Errorf("%s of 2 and 4 (-want +got):\n%s", value, diff)
		}
	}
}

// TestPartitionHolds: whatever is done in whatever order, without failures the new generation gets no more than its part, and the update ends with
// it; without a partition it gets all.
func TestPartitionHolds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		number := func(from, to int, what string) int { return rapid.IntRange(from, to).Draw(t, what) }
		f := drawFleet(number)
		for name, s := range f.of {
			if s.want.Replicas == 0 {
				s.want.Replicas, f.capacity = 1, f.capacity+f.pods[name]
			}
		}
		if !f.settle() {
			t.Fatalf("it does not settle:\n%s", f.log.String())
		}
		value := intstr.Parse(fmt.Sprintf("%d%%", number(0, 100, "percent")))
		f.partition = &value
		f.edit(1)
		limit := partOf(value, f.components())
		check := func(ended bool) {
			for _, name := range f.names {
				s, bounds := f.of[name], f.bounds()[name]
				most, active := limit.of(s.want.Replicas), count(s.view(), func(r Replica) bool { return r.active() && !r.Outdated })
				all := s.serving(0) + s.serving(1)
				if active > most || ended && (s.serving(1) != most || all < s.want.Replicas || all > s.want.Replicas+bounds.MaxSurge) {
					t.Fatalf("%d %s are of the new generation, %d may; %d and %d serve\n%s", active, name, most, s.serving(0), s.serving(1), f.log.String())
				}
			}
		}
		for range number(1, 100, "steps") {
			name := rapid.SampledFrom(f.names).Draw(t, "component")
			switch s := f.of[name]; number(0, 5, "what") {
			case 0:
				f.control(name)
			case 1:
				s.kubelet()
			case 2:
				f.place(name)
			case 3:
				s.terminator()
			case 4:
				f.report(name)
			default:
				f.decide()
			}
			check(false)
		}
		f.capacity = 1 << 20
		if !f.settle() {
			t.Fatalf("it does not settle:\n%s", f.log.String())
		}
		check(true)
		if !f.reached && limit.less(one) {
			t.Fatalf("the partition is not reached:\n%s", f.log.String())
		}
		f.partition = nil
		if !f.settle() {
			t.Fatalf("it does not settle:\n%s", f.log.String())
		}
		limit = one
		check(true)
	})
}
