// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/trellis-k8s/trellis/internal/topology"
)

// What a DeviceClass serves does not keep a gang from hosts that offer none of it.
func TestServedByADeviceClass(t *testing.T) {
	ls := levels("rack")
	both := topology.ShapeOf(podOf(map[string]string{gpu: "4", "cpu": "10"}))
	gang := func(leader bool) Demand {
		s := componentOf("w", 0, none, 1, 3, both)
		if leader {
			s.Waiting[0].Pods[0].Shape = cpus(10)
		}
		return Demand{Levels: ls, Required: none, Preferred: none, Components: []Component{s}}
	}
	for name, tc := range map[string]struct {
		nodes  []string
		leader bool
		served []string
		want   []string
		why    string
	}{
		"by no DeviceClass": {nodes: []string{"a0 a 0 cpu=30", "a1 a 0 cpu=30"},
			why: "no host has nvidia.com/gpu; needs 3 pods x 4 nvidia.com/gpu in one rack"},
		"by one":               {nodes: []string{"a0 a 0 cpu=30", "b0 b 0 cpu=20", "b1 b 0 cpu=20"}, served: []string{gpu}, want: []string{"w-0 a: a0 a0 a0"}},
		"by one, two shapes":   {nodes: []string{"a0 a 0 cpu=15", "a1 a 0 cpu=20"}, leader: true, served: []string{gpu}, want: []string{"w-0 a: a0 a1 a1"}},
		"hosts offer it":       {nodes: []string{"a0 a 8 cpu=30", "a1 a 4 cpu=30"}, served: []string{gpu}, want: []string{"w-0 a: a0 a0 a1"}},
		"some hosts offer it":  {nodes: []string{"a0 a 8 cpu=30", "a1 a 0 cpu=10"}, served: []string{gpu}, want: []string{"w-0 a: a0 a0 a1"}},
		"short of another one": {nodes: []string{"a0 a 0 cpu=20"}, served: []string{gpu}, why: "no rack holds 3 pods x 4 nvidia.com/gpu, even when empty: the largest holds 2 (a: 20 of 30 cpu); needs 3 pods x 4 nvidia.com/gpu in one rack"},
		"short of another one, scattered": {nodes: []string{"a0 a 0 cpu=19", "a1 a 0 cpu=15"}, leader: true, served: []string{gpu},
			why: "needs 2 pods x 4 nvidia.com/gpu + 1 pod x 10 cpu in one rack; a holds 2 of 3"},
	} {
		t.Run(name, func(t *testing.T) {
			c := clusterOf(ls, tc.nodes...)
			c.Serve(tc.served)
			r := PlanGraph(c, gang(tc.leader), Options{})
			one := r.Replicas[0]
			if one.Refusal != nil {
				if got := one.Refusal.Message(); got != tc.why {
					t.Errorf("refused: %q, want %q", got, tc.why)
				}
				return
			}
			if diff := cmp.Diff(tc.want, summary(r)); diff != "" {
				t.Errorf("placed (-want +got):\n%s", diff)
			}
		})
	}
}

// The search that goes back on hosts does not miss what a DeviceClass serves either: the first host that would do leaves no host for the others.
func TestServedByADeviceClassOnSecondThought(t *testing.T) {
	ls := levels("rack")
	c := clusterOf(ls, "a0 a 0 cpu=20", "a1 a 0 cpu=15")
	c.Serve([]string{gpu})
	s := componentOf("w", 0, none, 1, 2, cpus(10))
	s.Waiting[0].Pods = append(s.Waiting[0].Pods, pods("gpu", 1, topology.ShapeOf(podOf(map[string]string{gpu: "4", "cpu": "15"})))...)
	r := PlanGraph(c, Demand{Levels: ls, Required: none, Preferred: none, Components: []Component{s}}, Options{})
	if diff := cmp.Diff([]string{"w-0 a: a0 a0 a1"}, summary(r)); diff != "" {
		t.Errorf("placed (-want +got):\n%s", diff)
	}
}
