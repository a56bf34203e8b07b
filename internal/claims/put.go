// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/trellis-k8s/trellis/internal/topology"
)

// Put implements topology.Binding.
func (b *binding) Put(s *topology.Shape, n topology.NodeID, k int) {
	if class := b.classOf(s); class != nil {
		b.put(class, b.host(b.cluster.NodeName(n)), k)
	}
}

// PutPod implements topology.Binding.
func (b *binding) PutPod(pod *corev1.Pod, n topology.NodeID, k int) {
	served := b.servedOf(pod)
	if len(pod.Spec.ResourceClaims) == 0 && len(served) == 0 {
		return
	}
	if class := b.classFor(pod, served); class != nil {
		b.put(class, b.host(b.cluster.NodeName(n)), k)
	}
}

// put adds k pods of a class to a node, or removes them if k is negative.
func (b *binding) put(c *class, h *host, k int) {
	for ; k > 0; k-- {
		b.push(c, h)
	}
	for ; k < 0; k++ {
		b.pop(c, h)
	}
}

// push counts one more pod and allocates devices for it, if enough devices are free.
func (b *binding) push(c *class, h *host) {
	e := entry{class: c}
	a := b.ask(c, h.hostDevices, h.taken, b.have(c), b.lacksOf(c, h))
	e.allocated = a.refused == ""
	for i := range a.given {
		results := a.given[i].on(h.hostDevices)
		if b.change(h, results, true); a.given[i].shared < 0 {
			e.own = append(e.own, results...)
			continue
		}
		of := &allocation{at: h, here: a.given[i].here, given: results}
		if selector := a.given[i].selector; selector != nil && !of.here {
			of.where, _ = nodeaffinity.NewNodeSelector(selector)
		}
		b.shared[c.claims[a.given[i].shared].name] = of
	}
	for _, one := range c.sharing() {
		if of := b.shared[one.name]; of != nil {
			of.pods++
		}
	}
	h.pods = append(h.pods, e)
}

// pop removes the last pod of a class and releases its devices.
func (b *binding) pop(c *class, h *host) {
	for i := range slices.Backward(h.pods) {
		if h.pods[i].class != c {
			continue
		}
		b.change(h, h.pods[i].own, false)
		if h.pods = slices.Delete(h.pods, i, i+1); i < h.fixed {
			h.fixed--
		}
		for _, one := range c.sharing() {
			of := b.shared[one.name]
			if of == nil {
				continue
			}
			if of.pods--; of.pods == 0 {
				delete(b.shared, one.name)
				b.change(of.at, of.given, false)
			}
		}
		return
	}
}

// sharing returns the claims that pods of the class share and that were not allocated before the plan.
func (c *class) sharing() (list []*claim) {
	for _, one := range c.claims {
		if !one.own && one.object != nil {
			list = append(list, one)
		}
	}
	return list
}

// have returns, as a bit set, the class's shared claims that the plan has allocated.
func (b *binding) have(c *class) (set uint64) {
	for i, one := range c.claims {
		if !one.own && one.object != nil && b.shared[one.name] != nil {
			set |= 1 << i
		}
	}
	return set
}

// change marks devices as taken or free on a node. A device that several nodes can access is marked on all of these nodes.
func (b *binding) change(h *host, results []resourcev1.DeviceRequestAllocationResult, taken bool) {
	for i := range results {
		id := poolID{results[i].Driver, results[i].Pool}
		if h.alone || b.store.pools[id].local() != "" {
			h.change(&results[i], taken)
			continue
		}
		if taken {
			b.wide[id] = append(b.wide[id], results[i])
		} else {
			b.wide[id] = without(b.wide[id], &results[i])
		}
		for _, other := range b.hosts {
			if slices.ContainsFunc(other.pools, func(p *pool) bool { return p.id == id }) {
				other.change(&results[i], taken)
			}
		}
	}
}

func (h *host) change(r *resourcev1.DeviceRequestAllocationResult, taken bool) {
	switch {
	case !takes(r):
	case taken:
		h.taken = h.taken.with(h.hostDevices, []resourcev1.DeviceRequestAllocationResult{*r})
	default:
		h.taken.results = without(h.taken.results, r)
		h.taken.sum -= h.mark(r)
	}
}

// without returns the list without the last entry for the device, or for the share of the device, in r.
func without(list []resourcev1.DeviceRequestAllocationResult,
	r *resourcev1.DeviceRequestAllocationResult) []resourcev1.DeviceRequestAllocationResult {
	for i := range slices.Backward(list) {
		if keyOf(&list[i]) == keyOf(r) {
			return slices.Concat(list[:i], list[i+1:])
		}
	}
	return list
}

func keyOf(r *resourcev1.DeviceRequestAllocationResult) string {
	share := ""
	if r.ShareID != nil {
		share = string(*r.ShareID)
	}
	return fmt.Sprintf("%s/%s/%s %s", r.Driver, r.Pool, r.Device, share)
}
