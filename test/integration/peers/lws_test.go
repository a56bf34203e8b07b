// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"testing"

	"github.com/trellis-k8s/trellis/internal/provider/providertest"
)

// TestLeaderWorkerSets: taken whole, with the gate and for KAI.
func TestLeaderWorkerSets(t *testing.T) {
	dgd := deployment(t, "sets")
	k := providertest.KAI(t, dgd)
	for _, set := range providertest.Sets(providertest.Groups(t, dgd, "Gates"), nil) {
		accepted(t, sent(t, set, ""), "All")
	}
	for _, set := range providertest.Sets(k.Groups, k.Prepare) {
		accepted(t, sent(t, set, ""), "All")
	}
}
