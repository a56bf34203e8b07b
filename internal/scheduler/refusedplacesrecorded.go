// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/trellis-k8s/trellis/internal/assignment"
)

// recorded returns the refusals of a graph for its record.
func (p *refusedPlaces) recorded(graph types.NamespacedName) (out []assignment.Refused) {
	for shape, list := range p.places[graph] {
		for i := range list {
			one := &list[i]
			out = append(out, assignment.Refused{
				Shape: shape, Place: one.place, Domain: one.path, Message: one.said, Times: one.times, Last: one.at, Until: one.until,
			})
		}
	}
	return out
}

// takeRecorded takes over the refusals that another operator has recorded.
func (p *refusedPlaces) takeRecorded(graph types.NamespacedName, record *assignment.Record) {
	if record == nil {
		return
	}
	now := p.clock.Now()
	for _, recorded := range record.Refused {
		one := refusal{
			place: recorded.Place, name: recorded.Domain.String(), said: recorded.Message, path: recorded.Domain, times: recorded.Times,
			until: earlier(recorded.Until, now.Add(lastRefusal)), at: recorded.Last,
		}
		if one.place.Host != "" {
			one.name = "host " + one.place.Host
		}
		known, is := p.known[graph][recorded.Shape+" "+one.name]
		if is && !recorded.Last.After(known) || one.forgotten(now) {
			continue
		}
		p.known.add(graph, recorded.Shape, &one)
		if p.places[graph] == nil {
			p.places[graph] = map[string][]refusal{}
		}
		p.places[graph][recorded.Shape] = append(slices.DeleteFunc(p.places[graph][recorded.Shape], func(other refusal) bool {
			return other.place.Equal(one.place)
		}), one)
	}
}
