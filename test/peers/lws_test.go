// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"testing"

	"github.com/trellis-k8s/trellis/internal/engine/lws"
	"github.com/trellis-k8s/trellis/internal/engine/peer/peertest"
)

// TestLeaderWorkerSets: taken whole, with the gate and with the membership; their status reads back.
func TestLeaderWorkerSets(t *testing.T) {
	dgd := deployment(t, "sets")
	k := peertest.KAI(t, dgd)
	for _, set := range peertest.Sets(peertest.Groups(t, dgd, "Gates"), nil) {
		accepted(t, sent(t, set, ""), "All")
	}
	set := accepted(t, sent(t, peertest.Sets(k.Groups, k.Join)[0], ""))
	if r := lws.Read(read[lws.LeaderWorkerSet](t, set)); r.Exists || r.Ready {
		t.Errorf("before there is a status: %+v", r)
	}
	ready := status(t, set, `
  {observedGeneration: 1, replicas: 1, readyReplicas: 1, updatedReplicas: 1, conditions: [{type: Available, status: "True", reason: AllGroupsReady, message: ready, lastTransitionTime: "2026-01-01T00:00:00Z"}]}`)
	if r := lws.Read(read[lws.LeaderWorkerSet](t, ready)); !r.Exists || !r.Ready || !r.Updated || r.NotReady != "" {
		t.Errorf("ready: %+v", r)
	}
}
