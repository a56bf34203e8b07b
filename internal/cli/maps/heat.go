// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package maps

import "github.com/trellis-k8s/trellis/internal/cli/tree"

// FreeCapacity is what of a domain is free, and for how much of it a gang of equal pods finds hosts. Their quotient says how far the free capacity is
// usable: 1 when every free GPU is on a host with capacity for a whole pod, 0 when none is.
type FreeCapacity struct{ Fits, Free int64 }

// FreeIn counts the capacity in a domain for pods that each take so much of one host.
func FreeIn(d *tree.Domain, pod int64) FreeCapacity {
	if d.Node {
		if d.Amount == nil || pod <= 0 {
			return FreeCapacity{}
		}
		return FreeCapacity{Fits: d.Free / pod * pod, Free: d.Free}
	}
	var sum FreeCapacity
	for _, child := range d.Children {
		r := FreeIn(child, pod)
		sum.Fits, sum.Free = sum.Fits+r.Fits, sum.Free+r.Free
	}
	return sum
}

// heats is in how many steps the colour of a rack rises.
const heats = 5

// Heat is 0 for capacity that is whole or for none at all, and heats-1 for capacity that no pod fits into.
func (r FreeCapacity) Heat() int {
	if r.Free == 0 {
		return 0
	}
	lost := r.Free - r.Fits
	return int((lost*(heats-1) + r.Free - 1) / r.Free)
}

// hosts calls f for every node below a domain.
func hosts(d *tree.Domain, f func(*tree.Domain)) {
	if d.Node {
		f(d)
	}
	for _, child := range d.Children {
		hosts(child, f)
	}
}

// podSize is the amount that gangs are counted in.
func podSize(r *tree.Overview) int64 {
	var asked, host int64
	see := func(pods []tree.Pod) {
		for _, p := range pods {
			asked = max(asked, p.Amount)
		}
	}
	for _, t := range r.Trees {
		hosts(t.Cluster, func(d *tree.Domain) {
			see(d.Pods)
			if d.Amount != nil {
				host = max(host, d.Total)
			}
		})
	}
	for _, g := range r.Graphs {
		if g.Waiting != nil {
			see(g.Waiting.Pods)
		}
	}
	if asked > 0 && asked <= host {
		return asked
	}
	return host
}
