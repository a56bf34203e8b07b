// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"

	"github.com/trellis-k8s/trellis/hack/bench/hall"
	"github.com/trellis-k8s/trellis/hack/bench/live"
)

// podSize measures the size of a gang's pods in the API server.
func podSize(ctx context.Context, c *live.Cluster, s sizes, r *report) error {
	g := s.graphs()
	var measured [4]live.PodSize
	var err error
	for i, one := range []struct {
		pods  int
		level hall.Level
	}{{g.small, hall.Rack}, {g.small, hall.Cluster}, {g.small, hall.Block}, {g.large, hall.Block}} {
		if measured[i], err = c.PodSize(ctx, one.pods, one.level); err != nil {
			return err
		}
	}
	r.packedSizes(g.small, measured[0], measured[1])
	r.gangSizes(g, measured[2], measured[3])
	return nil
}

// packedSizes adds the rows of a pod with and without a topology constraint.
func (r *report) packedSizes(pods int, packed, free live.PodSize) {
	name := fmt.Sprintf("packed pod of a gang of %d, ", pods)
	const peer = "without topology"
	r.atMost(name+"JSON", "bytes", packed.JSON, free.JSON, peer, 1.25)
	r.atMost(name+"protobuf", "bytes", packed.Protobuf, free.Protobuf, peer, 1.25)
	r.note("A pod of a gang of %d as it is created: %s bytes packed, %s without topology.", pods, number(packed.Created), number(free.Created))
}

// gangSizes adds the rows of a pod of a large gang against one of a small gang. It does not count the digits of longer numbers.
func (r *report) gangSizes(g graphSizes, small, large live.PodSize) {
	digits := max(0, large.Digits-small.Digits)
	name, peer := fmt.Sprintf("packed pod of a gang of %d, ", g.large), fmt.Sprintf("gang of %d", g.small)
	r.atMost(name+"JSON", "bytes", large.JSON-digits, small.JSON, peer, 1)
	r.atMost(name+"protobuf", "bytes", large.Protobuf-digits, small.Protobuf, peer, 1)
	r.atMost(name+"protobuf as created", "bytes", large.Created-digits, small.Created, peer, 1)
	r.note("Not counted for a pod of the gang of %d: %s bytes of digits by which its numbers are longer.", g.large, number(digits))
}
