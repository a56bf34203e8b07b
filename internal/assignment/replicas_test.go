// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package assignment

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/trellis-k8s/trellis/internal/topology"
)

// A replica ran in its place unless its pods may not exist yet, and has a former domain unless hosts are planned for it and it was never
// bound. It was bound unless its first gang is still to be.
func TestReplicasThatRan(t *testing.T) {
	now, rack := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC), topology.Path{"z", "r"}
	key := func(ordinal int) Key { return Key{"work", ordinal} }
	r := (&Record{}).Clone()
	r.Bound[key(0)] = Place{Attempt: 1, Domain: rack}
	r.Former[key(1)] = Place{Attempt: 1, Domain: rack}
	r.Assign("new", key(2), rack, []string{"a"}, now)
	r.Assign("rest", key(3), rack, nil, now)
	r.Assign("evicted", key(4), rack, []string{"a"}, now)
	r.Evict("evicted", nil, "no", now)
	r.Bound[Key{"other", 7}] = Place{Attempt: 1}
	work := r.Replicas("work")
	if diff := cmp.Diff([]int{0, 1, 2, 3, 4}, work.Ordinals()); diff != "" {
		t.Errorf("recorded (-want +got):\n%s", diff)
	}
	r.Bound[key(5)] = Place{Attempt: 1, Domain: rack}
	r.Assign("again", key(5), rack, []string{"a"}, now)
	var ran, bound, former []int
	for ordinal := range 6 {
		if work.WasBound(int32(ordinal)) {
			bound = append(bound, ordinal)
		}
		if work.Ran(int32(ordinal)) {
			ran = append(ran, ordinal)
		}
		if r.FormerDomain(key(ordinal)).Equal(rack) {
			former = append(former, ordinal)
		}
	}
	if diff := cmp.Diff([]int{0, 1, 3, 4}, ran); diff != "" {
		t.Errorf("ran (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]int{0, 1, 5}, bound); diff != "" {
		t.Errorf("were bound (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]int{0, 1, 3, 5}, former); diff != "" {
		t.Errorf("with a former domain (-want +got):\n%s", diff)
	}
	var none *Record
	if none.Ran(key(0)) || none.Replicas("work").WasBound(0) || none.FormerDomain(key(0)) != nil ||
		len(none.Replicas("work").Ordinals()) > 0 || none.Replicas("work").Last(0) > 0 {
		t.Error("without a record there are places")
	}
}
