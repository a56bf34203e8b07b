// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package volumes_test

import (
	"testing"

	"github.com/trellis-k8s/trellis/internal/placement"
	"github.com/trellis-k8s/trellis/internal/topology"
	"github.com/trellis-k8s/trellis/internal/volumes"
)

// No hosts are reserved for a gang that they would not hold once they are empty: its claim does not exist.
func TestNoReservationWithoutClaim(t *testing.T) {
	for claimName, want := range map[string]bool{"models": true, "typo": false} {
		store := volumes.NewStore()
		store.Set(claim("models", "", boundTo("v")))
		store.Set(pv("v", "", ""))
		c := topology.NewCluster()
		c.Binders = []topology.Binder{store}
		for i, n := range nodes() {
			c.SetNode(n)
			busy := pods(i+1, "4")[i]
			busy.Name, busy.Spec.NodeName = "busy-"+n.Name, n.Name
			c.SetPod(busy)
		}
		g := graphOf(pods(2, "4", claimName))
		g.Components[0].Required = 0
		c.Begin()
		r := placement.PlanGraph(c, g, placement.Options{})
		c.Rollback()
		if empty, _ := placement.WhenEmpty(c, g, &r, nil, 9, placement.Options{}); (empty != nil) != want {
			t.Errorf("claim %s: %+v is reserved", claimName, empty)
		}
	}
}
