// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package lws

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/trellis-k8s/trellis/internal/engine/peer"
)

const conditionAvailable = "Available"

// Replica is one replica as its set shows it.
type Replica struct {
	Exists, Updated, Ready bool
	// NotReady says why not, or "".
	NotReady string
}

// Read sums up the set of one replica; nil while it is not there.
func Read(set *LeaderWorkerSet) Replica {
	switch {
	case set == nil:
		return Replica{NotReady: "the LeaderWorkerSet is not there yet"}
	case set.Status.ObservedGeneration != 0 && set.Status.ObservedGeneration < set.Generation:
		return Replica{Exists: set.Status.Replicas > 0, NotReady: fmt.Sprintf("leaderworkerset/%s: being updated", set.Name)}
	}
	r := Replica{
		Exists:  set.Status.Replicas > 0,
		Updated: set.Status.UpdatedReplicas > 0,
		Ready:   set.Status.ReadyReplicas > 0,
	}
	if r.Updated && r.Ready {
		return r
	}
	r.NotReady = fmt.Sprintf("leaderworkerset/%s: not ready", set.Name)
	if c := meta.FindStatusCondition(set.Status.Conditions, conditionAvailable); c != nil && c.Message != "" {
		r.NotReady = peer.Message(r.NotReady + ": " + c.Message)
	}
	return r
}
