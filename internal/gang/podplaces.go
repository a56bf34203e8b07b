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

// PodPlace is the place of one bound pod: the domain of its node.
type PodPlace struct {
	Component string
	// Replica is the ordinal of the pod's replica. Under Grove, it is 0 for all pods of a single-node component.
	Replica int32
	// Made is the creation time of the pod.
	Made   time.Time
	Domain topology.Path
}

// Home returns the domain of a level that contains the most pods. Of several such domains, it returns the domain with the oldest pod. Pods
// outside any domain of the level do not count. Home returns nil when no pod counts.
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
