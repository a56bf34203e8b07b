// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"testing"

	"github.com/trellis-k8s/trellis/internal/topology"
)

// Of domains that hold equally many pods the refusal names the one that takes least to free: with most hosts that suit such pods, then with most that
// is free there, then the first.
func TestClosestOfEqualDomains(t *testing.T) {
	ls := levels("zone", "rack")
	inPool := func(requests map[string]string) *topology.Shape {
		pod := podOf(requests)
		pod.Spec.NodeSelector = map[string]string{"pool": "x"}
		return topology.ShapeOf(pod)
	}
	const pool = " label=pool=x"
	for name, tc := range map[string]struct {
		nodes []string
		group *Group
		want  string
	}{
		"a mismatch is further than a shortage": {
			nodes: []string{"a0 z/a 8", "a1 z/a 8", "b0 z/b 8 cpu=1" + pool, "b1 z/b 8 cpu=1" + pool},
			group: group("g", 1, none, pods("p", 2, inPool(map[string]string{gpu: "8", "cpu": "2"}))),
			want:  "needs 2 pods x 8 nvidia.com/gpu in one rack; z/b holds 0 of 2 (2 hosts short of cpu, 2 of 4 cpu free, at most 1 on one host); 1 other rack holds no more",
		},
		"more hosts that suit": {
			nodes: []string{"a0 z/a 4" + pool, "a1 z/a 8", "b0 z/b 4" + pool, "b1 z/b 4" + pool},
			group: group("g", 1, none, pods("p", 2, inPool(map[string]string{gpu: "8"}))),
			want:  "needs 2 pods x 8 nvidia.com/gpu in one rack; z/b holds 0 of 2 (2 hosts short of nvidia.com/gpu, 8 of 16 nvidia.com/gpu free, at most 4 on one host); 1 other rack holds no more",
		},
		"more free": {
			nodes: []string{"a0 z/a 8 used=7", "b0 z/b 8 used=3", "c0 z/c 8 used=5"},
			group: group("g", 1, none, pods("p", 1, gpus(8))),
			want:  "needs 1 pod x 8 nvidia.com/gpu in one rack; z/b holds 0 of 1 (1 host short of nvidia.com/gpu); 2 other racks hold no more",
		},
		"more pods come first": {
			nodes: []string{"a0 z/a 8", "a1 z/a 4", "b0 z/b 7", "b1 z/b 7"},
			group: group("g", 1, none, pods("p", 2, gpus(8))),
			want:  "needs 2 pods x 8 nvidia.com/gpu in one rack; z/a holds 1 of 2 (1 host short of nvidia.com/gpu, 12 of 16 nvidia.com/gpu free); 1 other rack holds fewer",
		},
		"cordoned hosts suit the pods": {
			nodes: []string{"b0 z/a 4", "a0 z/b 8 cordoned", "a1 z/b 8 cordoned"},
			group: group("g", 1, none, pods("p", 2, gpus(8))),
			want:  "needs 2 pods x 8 nvidia.com/gpu in one rack; z/b holds 0 of 2 (2 hosts cordoned); 1 other rack holds no more",
		},
		"cordoned hosts that do not match": {
			nodes: []string{"a0 z/a 8 cordoned", "a1 z/a 8 cordoned", "b0 z/b 4" + pool},
			group: group("g", 1, none, pods("p", 2, inPool(map[string]string{gpu: "8"}))),
			want:  "needs 2 pods x 8 nvidia.com/gpu in one rack; z/b holds 0 of 2 (1 host short of nvidia.com/gpu); 1 other rack holds no more",
		},
		"tainted and broken hosts do not": {
			nodes: []string{"a0 z/a 8 notready", "a1 z/a 8 taint=k", "b0 z/b 4"},
			group: group("g", 1, none, pods("p", 2, gpus(8))),
			want:  "needs 2 pods x 8 nvidia.com/gpu in one rack; z/b holds 0 of 2 (1 host short of nvidia.com/gpu); 1 other rack holds no more",
		},
		"several shapes": {
			nodes: []string{"a0 z/a 8", "a1 z/a 8", "b0 z/b 8 cpu=1" + pool, "b1 z/b 8 cpu=1" + pool},
			group: group("g", 1, none, append(pods("p", 2, inPool(map[string]string{gpu: "8", "cpu": "2"})), pods("q", 1, inPool(map[string]string{"cpu": "4"}))...)),
			want:  "needs 2 pods x 8 nvidia.com/gpu + 1 pod x 4 cpu in one rack; z/b holds 0 of 3 (2 hosts short of cpu, 2 of 4 cpu free, at most 1 on one host); 1 other rack holds no more",
		},
		"none suits": {
			nodes: []string{"a0 z/a 8", "b0 z/b 8"},
			group: group("g", 1, none, pods("p", 1, inPool(map[string]string{gpu: "8"}))),
			want:  "needs 1 pod x 8 nvidia.com/gpu in one rack; z/a holds 0 of 1 (1 host node selector mismatch); 1 other rack holds no more",
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, why := PlanGroup(clusterOf(ls, tc.nodes...), ls, nil, tc.group, Options{})
			if why == nil {
				t.Fatal("placed")
			}
			if got := why.Message(); got != tc.want {
				t.Errorf("message\n%s\nwant\n%s", got, tc.want)
			}
		})
	}
}
