// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"cmp"
	"maps"
	"slices"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// poolID identifies a pool of devices.
type poolID struct{ driver, name string }

func (p poolID) compare(o poolID) int {
	return cmp.Or(cmp.Compare(p.driver, o.driver), cmp.Compare(p.name, o.name))
}

// pool is a set of devices that one driver manages together.
type pool struct {
	id poolID
	// slices are the slices of all generations, by name, with the taints of DeviceTaintRules.
	slices map[string]*resourcev1.ResourceSlice
	// nodes contains, by slice, the nodes that can access the slice's devices.
	nodes map[string][]nodes
	// text is equal for pools with equal devices; "": must be computed again. Only pools that several nodes can access have a text.
	text string
	// taken are the allocated devices, by claim.
	taken map[types.NamespacedName][]resourcev1.DeviceRequestAllocationResult
}

func (s *Store) pool(id poolID) *pool {
	p := s.pools[id]
	if p == nil {
		p = &pool{
			id: id, slices: map[string]*resourcev1.ResourceSlice{}, nodes: map[string][]nodes{},
			taken: map[types.NamespacedName][]resourcev1.DeviceRequestAllocationResult{},
		}
		s.pools[id] = p
	}
	return p
}

func poolOf(slice *resourcev1.ResourceSlice) poolID {
	return poolID{slice.Spec.Driver, slice.Spec.Pool.Name}
}

// addSlice adds the devices of a slice.
func (s *Store) addSlice(slice *resourcev1.ResourceSlice) {
	s.slices[slice.Name] = slice
	clear(s.late)
	if why := beyond(slice); why != "" {
		s.beyond[slice.Name] = why
	}
	p := s.pool(poolOf(slice))
	p.slices[slice.Name], p.nodes[slice.Name] = s.withTaints(slice), nodesOf(slice)
	s.reach(p)
	s.forget(p)
}

// removeSlice removes the devices of a slice.
func (s *Store) removeSlice(slice *resourcev1.ResourceSlice) {
	if slice == nil {
		return
	}
	delete(s.slices, slice.Name)
	delete(s.beyond, slice.Name)
	p := s.pool(poolOf(slice))
	s.forget(p)
	s.unreach(p)
	delete(p.slices, slice.Name)
	delete(p.nodes, slice.Name)
	s.reach(p)
	s.drop(p)
}

// drop removes a pool without slices and allocations.
func (s *Store) drop(p *pool) {
	if len(p.slices) == 0 && len(p.taken) == 0 {
		delete(s.pools, p.id)
	}
}

// reach records the nodes that can access the devices of a pool; unreach removes them.
func (s *Store) reach(p *pool) {
	for _, slice := range p.slices {
		node := ptr.Deref(slice.Spec.NodeName, "")
		if node == "" {
			s.wide[p.id] = p
			continue
		}
		if s.reaching[node] == nil {
			s.reaching[node] = map[poolID]*pool{}
		}
		s.reaching[node][p.id] = p
	}
}

func (s *Store) unreach(p *pool) {
	delete(s.wide, p.id)
	for _, slice := range p.slices {
		node := ptr.Deref(slice.Spec.NodeName, "")
		if delete(s.reaching[node], p.id); len(s.reaching[node]) == 0 {
			delete(s.reaching, node)
		}
	}
}

// local returns the only node that can access the pool; "" when several nodes may access it.
func (p *pool) local() (node string) {
	for _, slice := range p.slices {
		of := ptr.Deref(slice.Spec.NodeName, "")
		if of == "" || node != "" && node != of {
			return ""
		}
		node = of
	}
	return node
}

// current returns the slices of the newest generation, by name.
func (p *pool) current() (list []*resourcev1.ResourceSlice) {
	var newest int64
	for _, slice := range p.slices {
		newest = max(newest, slice.Spec.Pool.Generation)
	}
	for _, name := range slices.Sorted(maps.Keys(p.slices)) {
		if slice := p.slices[name]; slice.Spec.Pool.Generation == newest {
			list = append(list, slice)
		}
	}
	return list
}

// tainted updates the taints of slices after a DeviceTaintRule has changed. It reports whether the change may free devices.
func (s *Store) tainted(old, now *resourcev1.DeviceTaintRule) (mayFree bool) {
	for _, slice := range s.slices {
		if !concerns(old, slice) && !concerns(now, slice) {
			continue
		}
		p := s.pool(poolOf(slice))
		p.slices[slice.Name] = s.withTaints(slice)
		s.forget(p)
		mayFree = mayFree || old != nil
	}
	return mayFree
}

// withTaints returns a slice with the taints of DeviceTaintRules on its devices.
func (s *Store) withTaints(slice *resourcev1.ResourceSlice) *resourcev1.ResourceSlice {
	out := slice
	for _, name := range slices.Sorted(maps.Keys(s.rules)) {
		rule := s.rules[name]
		if !concerns(rule, slice) {
			continue
		}
		if out == slice {
			out = slice.DeepCopy()
		}
		for i := range out.Spec.Devices {
			if d := &out.Spec.Devices[i]; selects(rule.Spec.DeviceSelector.Device, d.Name) {
				d.Taints = append(d.Taints, rule.Spec.Taint)
			}
		}
	}
	return out
}

// concerns reports whether a rule may apply to devices of a slice's pool. A rule without a selector applies to no devices.
func concerns(rule *resourcev1.DeviceTaintRule, slice *resourcev1.ResourceSlice) bool {
	return rule != nil && rule.Spec.DeviceSelector != nil && selects(rule.Spec.DeviceSelector.Driver, slice.Spec.Driver) &&
		selects(rule.Spec.DeviceSelector.Pool, slice.Spec.Pool.Name)
}

func selects(wanted *string, name string) bool { return wanted == nil || *wanted == name }

// beyond names a feature of a slice that is not supported; "" for none.
func beyond(slice *resourcev1.ResourceSlice) string {
	for i := range slice.Spec.Devices {
		d := &slice.Spec.Devices[i]
		for k := range d.ConsumesCounters {
			if len(d.ConsumesCounters[k].CompatibilityGroups) > 0 {
				return "compatibility groups"
			}
		}
		if len(d.NodeAllocatableResources) > 0 {
			return "node-allocatable resources"
		}
		for _, a := range d.Attributes {
			if len(a.IntValues)+len(a.BoolValues)+len(a.StringValues)+len(a.VersionValues) > 0 {
				return "attributes that are lists"
			}
		}
	}
	if len(slice.Spec.SkipNodeOperations) > 0 {
		return "optional node operations"
	}
	return ""
}
