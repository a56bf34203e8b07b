// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package assignment

import (
	"cmp"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// TestPlacedAgain: only a change after which pods of a recorded replica do not count any more is one.
func TestPlacedAgain(t *testing.T) {
	now, key, other := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC), Key{"A", 0}, Key{"A", 1}
	rack := func(name string) topology.Path { return topology.Path{"zone", name} }
	for name, tc := range map[string]struct {
		change func(*Record)
		uid    types.UID
		want   bool
	}{
		"nothing":                          {change: func(*Record) {}},
		"another replica is placed":        {change: func(r *Record) { r.Assign("g", other, rack("a"), []string{"h2"}, now) }},
		"a further pod of it is placed":    {change: func(r *Record) { r.Assign("g", key, rack("a"), []string{"", "h2"}, now) }},
		"it is bound":                      {change: func(r *Record) { r.settle(map[Key]Shown{key: {State: AllBound}}) }},
		"it is not wanted any more":        {change: func(r *Record) { r.retire(key, false) }},
		"it loses its place":               {change: func(r *Record) { r.retire(key, true) }, want: true},
		"it is placed again in its gang":   {change: func(r *Record) { r.Restart(key) }, want: true},
		"it is placed again in another":    {change: func(r *Record) { r.Assign("h", key, rack("b"), []string{"h3"}, now) }, want: true},
		"it is placed again, for the next": {change: func(r *Record) { r.Restart(key) }, uid: "2"},
	} {
		r := Decode(&trellisv1alpha1.GraphPlacementSpec{})
		r.Assign("g", key, rack("a"), []string{"h1"}, now)
		was := r.Encode("1")
		tc.change(r)
		is := r.Encode(cmp.Or(tc.uid, "1"))
		if got := PlacedAgain(&was, &is); got != tc.want {
			t.Errorf("%s: placed again = %v", name, got)
		}
	}
	former := Decode(&trellisv1alpha1.GraphPlacementSpec{})
	former.Assign("g", key, rack("a"), []string{"h1"}, now)
	former.retire(key, true)
	was := former.Encode("1")
	former.Assign("h", key, rack("b"), []string{"h3"}, now)
	if is := former.Encode("1"); PlacedAgain(&was, &is) {
		t.Error("a former replica is placed: the pods of its last attempt did not count before, either")
	}
}
