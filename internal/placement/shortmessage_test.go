// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"testing"

	"github.com/trellis-k8s/trellis/internal/topology"
)

// The short form keeps the hosts that take no pod of the closest domain, also of a graph that has to be in one domain.
func TestShortKeepsTheBracket(t *testing.T) {
	r := &Refusal{
		Code: CodeInsufficientCapacity, Gang: "w-0", Level: 2, LevelName: "rack", Within: topology.Path{"zone-0", "block-0"},
		Need:        []Need{{4, []topology.Request{{Name: "nvidia.com/gpu", Amount: 8}}}},
		Closest:     &Closest{Domain: topology.Path{"zone-0", "block-0", "rack-1"}, Holds: 3, Of: 4, Excluded: []Excluded{{topology.Exclusion{Kind: topology.KindCordoned}, 1}}},
		OthersFewer: 11, OthersEqual: 2,
	}
	const holds = "; zone-0/block-0/rack-1 holds 3 of 4 (1 host cordoned)"
	for most, want := range map[int]string{
		300: "needs 4 pods x 8 nvidia.com/gpu in one rack inside zone-0/block-0" + holds + "; 2 other racks hold no more; 11 other racks hold fewer",
		130: "needs 4 pods x 8 nvidia.com/gpu in one rack inside zone-0/block-0" + holds,
		115: "needs 4 pods x 8 nvidia.com/gpu in one rack" + holds,
		80:  "needs 4 pods x 8 nvidia.com/gpu in one rack inside zone-0/block-0",
	} {
		if got := r.Short(most); got != want {
			t.Errorf("in %d bytes: %q, want %q", most, got, want)
		}
	}
}

// The short form keeps the rule about the other role: without the rule, other domains seem to be free.
func TestShortKeepsThePartner(t *testing.T) {
	r := &Refusal{
		Code: CodeInsufficientCapacity, Gang: "decode-4", Level: 1, LevelName: "rack", Within: topology.Path{"a"}, Paired: true,
		Need:    []Need{{1, []topology.Request{{Name: "nvidia.com/gpu", Amount: 8}}}},
		Closest: &Closest{Domain: topology.Path{"a", "r0"}, Of: 1}, OthersEqual: 1,
	}
	const need = "needs 1 pod x 8 nvidia.com/gpu in one rack inside a, prefill alongside decode"
	for most, want := range map[int]string{
		200: need + "; a/r0 holds 0 of 1; 1 other rack holds no more", 110: need + "; a/r0 holds 0 of 1",
		90: "needs 1 pod x 8 nvidia.com/gpu in one rack, prefill alongside decode; a/r0 holds 0 of 1", 80: need,
	} {
		if got := r.Short(most); got != want {
			t.Errorf("in %d bytes: %q, want %q", most, got, want)
		}
	}
}

// The short form of a refusal keeps the rule that keeps the pods off most hosts, which names what is in the way.
func TestShortNamesTheRule(t *testing.T) {
	rule := Excluded{topology.Exclusion{Kind: topology.KindRule, Detail: "devices of served.example/device: 0 of 2 devices of class gpu free"}, 12}
	cordoned := Excluded{topology.Exclusion{Kind: topology.KindCordoned}, 2}
	refusal := func(domain topology.Path, excluded ...Excluded) *Refusal {
		return &Refusal{
			Code: CodeInsufficientCapacity, Gang: "w-0", Level: topology.NoLevel, Need: []Need{{2, []topology.Request{{Name: "served.example/device", Amount: 2}}}},
			Closest: &Closest{Domain: domain, Of: 2, Excluded: excluded},
		}
	}
	const need = "needs 2 pods x 2 served.example/device in the cluster"
	for name, tc := range map[string]struct {
		refusal *Refusal
		most    int
		want    string
	}{
		"all": {refusal(nil, rule, cordoned), 200,
			need + "; it holds 0 of 2 (12 hosts devices of served.example/device: 0 of 2 devices of class gpu free, 2 hosts cordoned)"},
		"the rule":             {refusal(nil, rule, cordoned), 160, need + "; it holds 0 of 2 (12 hosts devices of served.example/device: 0 of 2 devices of class gpu free)"},
		"not the need":         {refusal(nil, rule, cordoned), 140, "the cluster holds 0 of 2 (12 hosts devices of served.example/device: 0 of 2 devices of class gpu free)"},
		"of a domain":          {refusal(topology.Path{"zone-a"}, rule), 120, "zone-a holds 0 of 2 (12 hosts devices of served.example/device: 0 of 2 devices of class gpu free)"},
		"too long":             {refusal(nil, rule), 90, need + "; it holds 0 of 2"},
		"another reason first": {refusal(nil, cordoned, rule), 140, need + "; it holds 0 of 2"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tc.refusal.Short(tc.most); got != tc.want {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}
