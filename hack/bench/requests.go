// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	"github.com/trellis-k8s/trellis/hack/bench/live"
)

// requestRepeats is the number of requests of each kind.
const requestRepeats = 300

// requests measures the CPU time of single requests, one after the other on an otherwise idle control plane.
func requests(ctx context.Context, c *live.Cluster, s sizes, r *report) error {
	repeats := requestRepeats
	if s.smoke {
		repeats = 10
	}
	costs, err := c.RequestCosts(ctx, s.live.pods, repeats)
	if err != nil {
		return err
	}
	for _, one := range costs {
		r.note("A request, %s: %s.", one.Name, one.Took())
	}
	return nil
}
