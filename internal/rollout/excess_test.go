// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import "testing"

// TestScaleInByExcess: of replicas that serve, the one whose role is most in excess goes, before a younger one; what does not serve goes
// before it.
func TestScaleInByExcess(t *testing.T) {
	replicas := []Replica{
		{Ordinal: 0, State: Available, Created: 1, Excess: 3}, {Ordinal: 1, State: Available, Created: 2, Excess: 1},
		{Ordinal: 2, State: Starting, Created: 3, Excess: 2},
	}
	plan := Group{Replicas: 1}.Next(replicas, nil, 8)
	var removed []int
	for _, r := range plan.Remove {
		removed = append(removed, r.Ordinal)
	}
	if len(removed) != 2 || removed[0] != 2 || removed[1] != 0 {
		t.Errorf("removed %v, want 2, which does not serve, and 0", removed)
	}
}
