// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package browser

import (
	"testing"

	"github.com/trellis-k8s/trellis/internal/cli/tree"
)

// freeCapacity is the free capacity of a domain, and the part of it that fits pods of one size. fits / free is the usable share: 1 when
// every free GPU is on a host with capacity for a whole pod, 0 when none is.
type freeCapacity struct{ fits, free int64 }

// freeIn counts the capacity in a domain for pods of the given size.
func freeIn(d *tree.Domain, pod int64) freeCapacity {
	if d.Node {
		if d.Amount == nil || pod <= 0 {
			return freeCapacity{}
		}
		return freeCapacity{fits: d.Free / pod * pod, free: d.Free}
	}
	var sum freeCapacity
	for _, child := range d.Children {
		r := freeIn(child, pod)
		sum.fits, sum.free = sum.fits+r.fits, sum.free+r.free
	}
	return sum
}

// heats is the number of color steps of a rack.
const heats = 5

// heat returns the color step: 0 if all free capacity is usable or none is free, heats-1 if no pod fits.
func (r freeCapacity) heat() int {
	if r.free == 0 {
		return 0
	}
	lost := r.free - r.fits
	return int((lost*(heats-1) + r.free - 1) / r.free)
}

func TestFreeIn(t *testing.T) {
	rack := func(free ...int64) *tree.Domain {
		d := &tree.Domain{}
		for _, f := range free {
			d.Children = append(d.Children, &tree.Domain{Node: true, Amount: &tree.Amount{Free: f, Total: 8}})
		}
		return d
	}
	for name, tc := range map[string]struct {
		rack *tree.Domain
		pod  int64
		want freeCapacity
		heat int
	}{
		"whole":               {rack(8, 8), 8, freeCapacity{16, 16}, 0},
		"nothing free":        {rack(0, 0), 8, freeCapacity{0, 0}, 0},
		"scattered":           {rack(4, 4), 8, freeCapacity{0, 8}, heats - 1},
		"one host of two":     {rack(8, 7), 8, freeCapacity{8, 15}, 2},
		"a little lost":       {rack(8, 8, 8, 1), 8, freeCapacity{24, 25}, 1},
		"smaller pods":        {rack(7, 5), 2, freeCapacity{10, 12}, 1},
		"several a host":      {rack(8, 4), 4, freeCapacity{12, 12}, 0},
		"nothing to count by": {rack(8), 0, freeCapacity{0, 0}, 0},
		"nothing is counted":  {&tree.Domain{Children: []*tree.Domain{{Node: true}}}, 8, freeCapacity{}, 0},
	} {
		got := freeIn(tc.rack, tc.pod)
		if got != tc.want || got.heat() != tc.heat {
			t.Errorf("%s: got %+v and heat %d, want %+v and %d", name, got, got.heat(), tc.want, tc.heat)
		}
	}
}
