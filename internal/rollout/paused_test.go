// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import "testing"

// While an update is paused nothing is replaced that can become whole: the rest of a replica in a set is of the set's revision, that of
// another one would be of the new revision.
func TestPartialReplicasWhilePaused(t *testing.T) {
	for name, tc := range map[string]struct {
		replica Replica
		want    bool
	}{
		"pods of the former revision":     {Replica{State: Partial, Outdated: true}, true},
		"a set of the former revision":    {Replica{State: Partial, Outdated: true, InSet: true}, false},
		"pods of the current revision":    {Replica{State: Partial}, false},
		"all pods of the former revision": {Replica{State: Waiting, Outdated: true}, false},
		"pods that form no gang":          {Replica{State: Waiting, Outdated: true, Unplaceable: true}, true},
	} {
		group := Group{Replicas: 1, Step: &Step{Make: 1, Paused: true}}
		if removed := len(group.Next([]Replica{tc.replica}, nil, 1).Remove) > 0; removed != tc.want {
			t.Errorf("%s: removed %v", name, removed)
		}
	}
}
