// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/trellis-k8s/trellis/internal/topology"
)

// PodPlace is where one bound pod is: the domain of its node.
type PodPlace struct {
	Component string
	// Replica of the pod. Under Grove it is 0 for all pods of a single-node component.
	Replica int32
	// Made is when the pod was created.
	Made   time.Time
	Domain topology.Path
}

// Home is the domain of a level that most pods are in; of domains with as many pods, the one with the oldest pod. Pods that are in no
// domain of the level do not count. It is nil when none counts.
func Home(places []PodPlace, level int) topology.Path {
	type tally struct {
		path  topology.Path
		pods  int
		since time.Time
	}
	tallies := map[string]*tally{}
	for _, p := range places {
		if p.Domain.Level() < level {
			continue
		}
		path := p.Domain.Truncate(level)
		found := tallies[path.String()]
		if found == nil {
			found = &tally{path: path, since: p.Made}
			tallies[path.String()] = found
		}
		found.pods++
		if p.Made.Before(found.since) {
			found.since = p.Made
		}
	}
	if len(tallies) == 0 {
		return nil
	}
	return slices.MinFunc(slices.Collect(maps.Values(tallies)), func(a, b *tally) int {
		return cmp.Or(cmp.Compare(b.pods, a.pods), a.since.Compare(b.since), a.path.Compare(b.path))
	}).path
}
