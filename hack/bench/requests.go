// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	"github.com/trellis-k8s/trellis/hack/bench/live"
)

// requestRepeats is how many requests of each kind are sent.
const requestRepeats = 300

// requests: what single requests take of the CPU, one after the other on a control plane that has nothing else to do.
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
