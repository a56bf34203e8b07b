// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"cmp"
	"maps"
	"slices"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
)

// Store contains the devices of a cluster and the claims for them. It never changes these objects.
type Store struct {
	// Allocator chooses the devices that claims get; nil: no claim is counted.
	Allocator Allocator
	// Partial: the cluster may have objects that are not in the store, so a claim with an unknown class or template is ignored.
	Partial bool

	classes   map[string]*resourcev1.DeviceClass
	templates map[types.NamespacedName]*resourcev1.ResourceClaimTemplate
	claims    map[types.NamespacedName]*resourcev1.ResourceClaim
	rules     map[string]*resourcev1.DeviceTaintRule
	// slices are the slices as their drivers publish them. pools contain the same slices with the taints of DeviceTaintRules.
	slices map[string]*resourcev1.ResourceSlice
	pools  map[poolID]*pool
	// reaching contains, by node name, the pools that have slices of this single node. wide contains the pools that have slices which
	// several nodes may access.
	reaching map[string]map[poolID]*pool
	wide     map[poolID]*pool
	// beyond contains, by slice, the name of an unsupported feature.
	beyond map[string]string
	// hosts caches the devices of nodes. An entry is dropped when the devices of the node change.
	hosts map[string]*hostDevices
	// serving contains, by resource, the class that serves the resource; nil: must be computed again.
	serving map[string]*resourcev1.DeviceClass
	answers map[question]*answer
	// selectors contains the selectors of each namespace; different is their total number.
	selectors map[string]*selectors
	different int
	// late counts the allocations that took too long, by class of pods.
	late map[string]int
	// asked counts the calls of the allocator.
	asked int
}

const (
	// maxAnswers is the maximum number of cached answers. An answer with eight devices takes 1.4 KB.
	maxAnswers = 1 << 14
	// maxLikes is the maximum number of hashes, one per class of pods, that are cached for each node.
	maxLikes = 64
	// maxGone is the maximum number of cached nodes that the cluster no longer has.
	maxGone = 64
)

// NewStore returns an empty store.
func NewStore(a Allocator) *Store {
	return &Store{
		Allocator: a, classes: map[string]*resourcev1.DeviceClass{}, templates: map[types.NamespacedName]*resourcev1.ResourceClaimTemplate{},
		claims: map[types.NamespacedName]*resourcev1.ResourceClaim{}, rules: map[string]*resourcev1.DeviceTaintRule{},
		slices: map[string]*resourcev1.ResourceSlice{}, pools: map[poolID]*pool{}, reaching: map[string]map[poolID]*pool{},
		wide:   map[poolID]*pool{},
		beyond: map[string]string{}, hosts: map[string]*hostDevices{}, answers: map[question]*answer{}, late: map[string]int{},
		selectors: map[string]*selectors{},
	}
}

func nameOf(o interface {
	GetNamespace() string
	GetName() string
}) types.NamespacedName {
	return types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}
}

// Set adds or replaces an object. It reports whether pods that wait for devices may get them now. Objects of other kinds are ignored.
func (s *Store) Set(object any) (mayFree bool) {
	switch o := object.(type) {
	case *resourcev1.DeviceClass:
		old := s.classes[o.Name]
		if s.classes[o.Name] = o; old != nil && equality.Semantic.DeepEqual(old.Spec, o.Spec) {
			return false
		}
		s.serving = nil
		clear(s.late)
		clear(s.hosts) // the selectors of classes determine which devices are alike
		return true
	case *resourcev1.ResourceClaimTemplate:
		old := s.templates[nameOf(o)]
		s.templates[nameOf(o)] = o
		s.useTemplate(old, -1)
		s.useTemplate(o, 1)
		return old == nil
	case *resourcev1.ResourceClaim:
		return s.setClaim(o)
	case *resourcev1.DeviceTaintRule:
		old := s.rules[o.Name]
		s.rules[o.Name] = o
		return s.tainted(old, o)
	case *resourcev1.ResourceSlice:
		old := s.slices[o.Name]
		if old != nil && equality.Semantic.DeepEqual(old.Spec, o.Spec) {
			return false
		}
		s.removeSlice(old)
		s.addSlice(o)
		return true
	}
	return false
}

// Expect adds a claim template that will be created, unless the store has a template with the same name.
func (s *Store) Expect(t *resourcev1.ResourceClaimTemplate) {
	if s.templates[nameOf(t)] == nil {
		s.Set(t)
	}
}

// Delete removes an object. It reports whether pods that wait for devices may get them now.
func (s *Store) Delete(object any) (mayFree bool) {
	switch o := object.(type) {
	case *resourcev1.DeviceClass:
		delete(s.classes, o.Name)
		s.serving = nil
		clear(s.hosts)
	case *resourcev1.ResourceClaimTemplate:
		s.useTemplate(s.templates[nameOf(o)], -1)
		delete(s.templates, nameOf(o))
	case *resourcev1.ResourceClaim:
		old := s.claims[nameOf(o)]
		s.take(old, false)
		s.useClaim(old, -1)
		delete(s.claims, nameOf(o))
		return old != nil && old.Status.Allocation != nil
	case *resourcev1.DeviceTaintRule:
		old := s.rules[o.Name]
		delete(s.rules, o.Name)
		return s.tainted(old, nil)
	case *resourcev1.ResourceSlice:
		s.removeSlice(s.slices[o.Name])
	}
	return false
}

// setClaim stores a claim and its devices. It reports true if pods may have waited for a new claim, or for devices that the claim no longer
// has.
func (s *Store) setClaim(o *resourcev1.ResourceClaim) (mayFree bool) {
	name := nameOf(o)
	old := s.claims[name]
	s.take(old, false)
	s.claims[name] = o
	s.take(o, true)
	s.useClaim(old, -1)
	s.useClaim(o, 1)
	if old == nil {
		return true
	}
	had, has := old.Status.Allocation != nil, o.Status.Allocation != nil
	return had != has || (old.DeletionTimestamp == nil) != (o.DeletionTimestamp == nil) || old.UID != o.UID
}

// take records the devices of a claim as taken or as free.
func (s *Store) take(c *resourcev1.ResourceClaim, taken bool) {
	if c == nil || c.Status.Allocation == nil {
		return
	}
	for i := range c.Status.Allocation.Devices.Results {
		r := &c.Status.Allocation.Devices.Results[i]
		if !takes(r) {
			continue
		}
		p := s.pool(poolID{r.Driver, r.Pool})
		if of := nameOf(c); taken {
			p.taken[of] = append(p.taken[of], *r)
		} else {
			delete(p.taken, of)
		}
		s.each(p, func(_ string, h *hostDevices) { h.stale = true })
		s.drop(p)
	}
}

// classOf returns the class that serves a resource; nil for none. If several classes serve the resource, classOf returns the newest class,
// then the first class by name, as the kube-scheduler does.
func (s *Store) classOf(resource string) *resourcev1.DeviceClass {
	if s.serving == nil {
		s.serving = map[string]*resourcev1.DeviceClass{}
		for _, class := range slices.SortedFunc(maps.Values(s.classes), func(a, b *resourcev1.DeviceClass) int {
			return cmp.Or(b.CreationTimestamp.Compare(a.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
		}) {
			s.serving[resourcev1.ResourceDeviceClassPrefix+class.Name] = class
			if name := class.Spec.ExtendedResourceName; name != nil && s.serving[*name] == nil {
				s.serving[*name] = class
			}
		}
	}
	return s.serving[resource]
}

// Beyond names an object with an unsupported feature; "" for none. If there is such an object, no claim is counted, because the effect of
// the object depends on features that are off by default in a kube-scheduler of this version.
func (s *Store) Beyond() string {
	if len(s.beyond) == 0 {
		return ""
	}
	name := slices.Min(slices.Collect(maps.Keys(s.beyond)))
	return "ResourceSlice " + name + " has " + s.beyond[name]
}
