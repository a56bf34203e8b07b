// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package frontend

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// Publications remembers which instances workers have published in which version of an object, so that each version is read once. The zero
// value is ready to use.
type Publications struct {
	mu      sync.Mutex
	byGroup map[types.NamespacedName]map[types.UID]publication
}

type publication struct {
	version   string
	instances []Instance
}

// Of returns what an object publishes, if that version of it was noted for the group.
func (p *Publications) Of(group types.NamespacedName, object types.UID, version string) ([]Instance, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	known, ok := p.byGroup[group][object]
	return known.instances, ok && known.version == version
}

// Note what a version of an object publishes, for a group of workers.
func (p *Publications) Note(group types.NamespacedName, object types.UID, version string, instances []Instance) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.byGroup == nil {
		p.byGroup = map[types.NamespacedName]map[types.UID]publication{}
	}
	if p.byGroup[group] == nil {
		p.byGroup[group] = map[types.UID]publication{}
	}
	p.byGroup[group][object] = publication{version, instances}
}

// Keep forgets all objects of a group but some.
func (p *Publications) Keep(group types.NamespacedName, objects map[types.UID]bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for object := range p.byGroup[group] {
		if !objects[object] {
			delete(p.byGroup[group], object)
		}
	}
	if len(p.byGroup[group]) == 0 {
		delete(p.byGroup, group)
	}
}
