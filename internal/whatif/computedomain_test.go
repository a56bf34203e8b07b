// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package whatif

import (
	"testing"

	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/trellis-k8s/trellis/internal/claims/allocator"
	"github.com/trellis-k8s/trellis/internal/render"
)

// Channels of ComputeDomains that Trellis would make are counted, though the driver has not made their claim templates: each host offers one.
func TestPlannedComputeDomains(t *testing.T) {
	class := &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "compute-domain-default-channel.nvidia.com"}}
	channel := func(node string) *resourcev1.ResourceSlice {
		s := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: node}}
		s.Spec.Driver, s.Spec.NodeName = "compute-domain.nvidia.com", &node
		s.Spec.Pool = resourcev1.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: 1}
		s.Spec.Devices = []resourcev1.Device{{Name: "channel-0"}}
		return s
	}
	for name, tc := range map[string]struct {
		per       string
		hosts     []string
		classless bool
		want      string
	}{
		"two hosts of a rack":               {hosts: []string{"a-r0-0", "b-r1-0", "b-r1-1"}, want: "Worker-0 in b/r1"},
		"of its own":                        {per: render.PerReplica, hosts: []string{"a-r0-0", "b-r1-0", "b-r1-1"}, want: "Worker-0 in b/r1"},
		"no rack has two hosts with one":    {hosts: []string{"a-r0-0", "b-r1-0"}, want: "Worker-0 InsufficientCapacity"},
		"the driver's class does not exist": {classless: true, hosts: []string{"b-r1-0", "b-r1-1"}, want: "Worker-0 InsufficientCapacity"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(2)
			w.AllClaims, w.Allocator = true, allocator.New()
			if !tc.classless {
				w.Devices = []*resourcev1.DeviceClass{class}
			}
			for _, host := range tc.hosts {
				w.Claims.Slices = append(w.Claims.Slices, channel(host))
			}
			dgd := deployment("g", 1)
			dgd.Annotations = map[string]string{render.AnnotationComputeDomain: "all"}
			if tc.per != "" {
				dgd.Annotations[render.AnnotationComputeDomainPer] = tc.per
			}
			if got := scenario(t, NewPlanner(w), dgd); got != tc.want {
				t.Errorf("planned %q, want %q", got, tc.want)
			}
		})
	}
}
