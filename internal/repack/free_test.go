// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package repack

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestFree(t *testing.T) {
	rack := func() *hall { return (&hall{}).add("a/r1", 8, 8).add("a/r2", 8, 8).add("a/r3", 8, 8) }
	for name, tc := range map[string]struct {
		hall    *hall
		domains int
		limits  Limits
		already []string
		want    []string
		// keeps is the domain that all replicas have to go to.
		keeps string
	}{
		"the rack with the fewest GPUs in use": {
			hall: rack().runs("a", "a", none, 4, 0).runs("b", "a", none, 2, 2).uses(4, 2), domains: 1,
			want: []string{"[a/r2] 2 GPUs 1 replicas []"},
		},
		"two racks": {
			hall: rack().runs("a", "a", none, 4, 0).runs("b", "a", none, 2, 2).uses(4, 2), domains: 2,
			want: []string{"[a/r1 a/r2] 6 GPUs 2 replicas []"},
		},
		"what is free already counts": {
			hall: rack().runs("a", "a", none, 4, 0).uses(4, 4), domains: 2, already: []string{"a/r2"},
			want: []string{"[a/r1] 4 GPUs 1 replicas []"}, keeps: "a/r3",
		},
		"not where others use GPUs": {hall: rack().uses(0, 1).uses(2, 1).uses(4, 1), domains: 1},
		"not more GPUs than may restart": {
			hall: rack().runs("a", "a", none, 4, 0).uses(2, 1).uses(4, 1), domains: 1, limits: Limits{MaxGPUs: 2},
		},
		"only as far as the others have places": {
			hall: rack().runs("a", "a/r1", none, 4, 0).uses(2, 1).uses(4, 1), domains: 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			hosts := Hosts{Offer: map[string]bool{}, Busy: map[string]bool{}}
			for i := range tc.hall.paths {
				hosts.Offer[nodeName(i)] = true
				if tc.hall.fixed[i] > 0 {
					hosts.Busy[nodeName(i)] = true
				}
			}
			got := Free(tc.hall.place(), 1, tc.domains, hosts, tc.hall.replicas, tc.limits)
			var already []string
			for _, path := range got.Already {
				already = append(already, path.String())
			}
			if diff := cmp.Diff(tc.already, already); diff != "" {
				t.Errorf("already free (-want +got)\n%s", diff)
			}
			text := said(got.Plan)
			if len(tc.want) == 1 && len(text) > 1 {
				text = text[:1]
			}
			if diff := cmp.Diff(tc.want, text); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			if got.Plan != nil {
				for _, m := range got.Plan.Moves {
					if tc.keeps != "" && m.To.String() != tc.keeps {
						t.Errorf("%s moves to %s, which is to stay free", m.Replica.Name(), m.To)
					}
				}
				tc.hall.check(t, Gang{}, got.Plan)
			}
		})
	}
}
