// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"

	"github.com/trellis-k8s/trellis/internal/topology"
)

// deviceID identifies a device in the cluster.
type deviceID struct {
	pool poolID
	name string
}

// hostDevices are the devices that a node can access.
type hostDevices struct {
	node *corev1.Node
	// pools are the accessible pools, in the order in which the allocator uses them. slices are all slices of these pools.
	pools  []*pool
	slices []*resourcev1.ResourceSlice
	// alone: no other node can access these devices.
	alone bool
	// devices are the devices of the pools, in the same order. at maps each device to its index.
	devices []deviceID
	at      map[deviceID]int
	// taken are the devices of allocated claims. stale: taken must be computed again.
	taken state
	stale bool
	// likes caches a hash by the text of a class. The hash is equal for nodes whose devices the class cannot distinguish.
	likes map[string]uint64
}

// state is a set of taken devices. On nodes that are alike, equal states have the same sum.
type state struct {
	results []resourcev1.DeviceRequestAllocationResult
	sum     uint64
}

// host returns the devices that a node can access.
func (s *Store) host(name string, labels map[string]string) *hostDevices {
	if h := s.hosts[name]; h != nil && maps.Equal(h.node.Labels, labels) {
		h.take()
		return h
	}
	h := &hostDevices{node: &corev1.Node{}, alone: true, at: map[deviceID]int{}, likes: map[string]uint64{}, stale: true}
	h.node.Name, h.node.Labels = name, labels
	for _, p := range s.reaching[name] {
		h.pools = append(h.pools, p)
	}
	for id, p := range s.wide {
		if s.reaching[name][id] == nil && p.reachedBy(h.node) {
			h.pools = append(h.pools, p)
		}
	}
	slices.SortFunc(h.pools, func(a, b *pool) int { return a.id.compare(b.id) })
	for _, p := range h.pools {
		h.add(p)
	}
	h.take()
	s.hosts[name] = h
	return h
}

// take reads the devices that are allocated to claims.
func (h *hostDevices) take() {
	if !h.stale {
		return
	}
	h.taken, h.stale = state{}, false
	for _, p := range h.pools {
		for _, results := range p.taken {
			for i := range results {
				if takes(&results[i]) {
					h.taken.results = append(h.taken.results, results[i])
					h.taken.sum += h.mark(&results[i])
				}
			}
		}
	}
}

func (h *hostDevices) add(p *pool) {
	for _, name := range slices.Sorted(maps.Keys(p.slices)) {
		h.slices = append(h.slices, p.slices[name])
	}
	h.alone = h.alone && p.local() != ""
	for _, slice := range p.current() {
		for i := range slice.Spec.Devices {
			id := deviceID{p.id, slice.Spec.Devices[i].Name}
			h.at[id] = len(h.devices)
			h.devices = append(h.devices, id)
		}
	}
}

// with returns the state after some more devices are taken.
func (s state) with(h *hostDevices, results []resourcev1.DeviceRequestAllocationResult) state {
	for i := range results {
		if takes(&results[i]) {
			s.results = append(s.results[:len(s.results):len(s.results)], results[i])
			s.sum += h.mark(&results[i])
		}
	}
	return s
}

// mark returns a hash of a taken device's index on the node and of the taken share.
func (h *hostDevices) mark(r *resourcev1.DeviceRequestAllocationResult) uint64 {
	id := deviceID{poolID{r.Driver, r.Pool}, r.Device}
	at, known := h.at[id]
	text := strconv.Itoa(at)
	if !known {
		text = "gone"
	}
	if r.ShareID != nil {
		text += " shared"
	}
	for _, name := range slices.Sorted(maps.Keys(r.ConsumedCapacity)) {
		amount := r.ConsumedCapacity[name]
		text += " " + string(name) + "=" + amount.String()
	}
	return topology.HashOf(text)
}

// like returns a hash that is equal for nodes whose devices the pods of a class cannot distinguish as long as the same devices are taken on
// these nodes.
func (s *Store) like(h *hostDevices, c *class) uint64 {
	if like, known := h.likes[c.text]; known {
		return like
	}
	texts := []string{c.text, s.namesIn(c).classes}
	for _, p := range h.pools {
		texts = append(texts, "pool "+p.id.driver)
		current := p.current()
		if p.local() == "" {
			texts = append(texts, p.id.name, p.partOf(h.node), p.textOf(current))
			continue
		}
		for _, slice := range current {
			texts = append(texts, "slice "+strconv.FormatInt(slice.Spec.Pool.ResourceSliceCount, 10)+textOf(slice.Spec.SharedCounters))
			for i := range slice.Spec.Devices {
				texts = append(texts, s.namesIn(c).deviceText(&slice.Spec.Devices[i]))
			}
		}
		texts = append(texts, strconv.Itoa(len(current)))
	}
	if len(h.likes) >= maxLikes {
		clear(h.likes)
	}
	h.likes[c.text] = topology.HashOf(texts...)
	return h.likes[c.text]
}

// textOf returns a text that is equal for pools with equal devices.
func (p *pool) textOf(current []*resourcev1.ResourceSlice) string {
	if p.text == "" {
		var texts []string
		for _, slice := range current {
			texts = append(texts, slice.Name, textOf(slice.Spec))
		}
		p.text = strconv.FormatUint(topology.HashOf(texts...), 16)
	}
	return p.text
}

// textOf serializes API types, which always marshal.
func textOf(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// names identifies the attributes by which a class's selectors and constraints can distinguish devices.
type names struct {
	// classes contains the names of the device classes and their selectors.
	classes string
	// text contains all selectors and constraints. all: one of the selectors may read all attributes of a device.
	text string
	all  bool
}

// overAll matches an expression that may read attributes without naming them.
var overAll = regexp.MustCompile(`\.(all|exists|exists_one|map|filter|transformList|transformMap|transformMapEntry)\(|\.cel\.|sortedList|size\(|\[[^"']`)

func (s *Store) namesIn(c *class) *names {
	if c.names != nil {
		return c.names
	}
	var own, ofClasses strings.Builder
	seen := map[string]bool{}
	for _, spec := range c.specs() {
		for _, constraint := range spec.Devices.Constraints {
			own.WriteString(string(ptr.Deref(constraint.MatchAttribute, "")) + "\n" + string(ptr.Deref(constraint.DistinctAttribute, "")) + "\n")
		}
		for i := range spec.Devices.Requests {
			for _, r := range alternatives(&spec.Devices.Requests[i]) {
				writeExpressions(&own, r.selectors)
				if class := s.classes[r.class]; class != nil && !seen[r.class] {
					seen[r.class] = true
					ofClasses.WriteString(r.class + "\n")
					writeExpressions(&ofClasses, class.Spec.Selectors)
				}
			}
		}
	}
	c.names = &names{classes: ofClasses.String(), text: own.String() + ofClasses.String()}
	c.names.all = overAll.MatchString(c.names.text)
	return c.names
}

func writeExpressions(b *strings.Builder, selectors []resourcev1.DeviceSelector) {
	for i := range selectors {
		if selectors[i].CEL != nil {
			b.WriteString(selectors[i].CEL.Expression + "\n")
		}
	}
}

// deviceText is equal for devices that the class cannot distinguish.
func (n *names) deviceText(d *resourcev1.Device) string {
	seen := resourcev1.Device{
		ConsumesCounters: d.ConsumesCounters, Taints: slices.Clone(d.Taints), BindsToNode: d.BindsToNode, BindingConditions: d.BindingConditions,
		AllowMultipleAllocations: d.AllowMultipleAllocations, Attributes: d.Attributes, Capacity: d.Capacity,
	}
	for i := range seen.Taints {
		seen.Taints[i].TimeAdded = nil
	}
	if !n.all {
		seen.Attributes = named(n, d.Attributes)
		if !ptr.Deref(d.AllowMultipleAllocations, false) {
			seen.Capacity = named(n, d.Capacity)
		}
	}
	return textOf(seen)
}

// named returns the attributes whose names occur in the text.
func named[V any](n *names, of map[resourcev1.QualifiedName]V) map[resourcev1.QualifiedName]V {
	out := map[resourcev1.QualifiedName]V{}
	for name, value := range of {
		id := string(name)
		if i := strings.LastIndexByte(id, '/'); i >= 0 {
			id = id[i+1:]
		}
		if strings.Contains(n.text, id) {
			out[name] = value
		}
	}
	return out
}
