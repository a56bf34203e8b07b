// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package repack

import (
	"github.com/trellis-k8s/trellis/internal/placement"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// candidates returns the domains that may be freed for the gang: the domains of a level inside the gang's domain Within. If Within is
// narrower than the level, candidates returns Within.
func (f *finder) candidates(level int) []topology.DomainID {
	within, found := f.tree.Find(f.gang.Within)
	if !found {
		return nil
	}
	level = max(level, f.tree.LevelOf(within))
	if level == topology.NoLevel {
		return f.narrow(nil, within)
	}
	var list []topology.DomainID
	for _, d := range f.tree.Domains(level, within) {
		list = f.narrow(list, d)
	}
	return list
}

// narrow adds a domain to the list. If the domain is too large for a search that is not exact, narrow adds the domains inside it instead.
func (f *finder) narrow(list []topology.DomainID, d topology.DomainID) []topology.DomainID {
	if f.exact || f.tree.Size(d) <= maxHosts {
		return append(list, d)
	}
	children := f.tree.Children(d)
	if len(children) == 0 {
		f.result.Cut = true
		return list
	}
	for _, child := range children {
		list = f.narrow(list, child)
	}
	return list
}

// deepest returns the narrowest level that a group or a part of it requires.
func deepest(g *placement.Group) int {
	level := g.Required
	for _, sub := range g.Groups {
		level = max(level, deepest(sub))
	}
	return level
}
