// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package hierarchy

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/trellis-k8s/trellis/internal/topology"
)

// Levels are reversed where their keys are known and the labels agree.
func TestFindReversed(t *testing.T) {
	zone := topology.Level{Domain: "zone", Key: "topology.kubernetes.io/zone"}
	rack := topology.Level{Domain: "rack", Key: "topology.trellis.dev/rack"}
	host := topology.Level{Domain: "host", Key: "kubernetes.io/hostname"}
	own := topology.Level{Domain: "mine", Key: "example.com/mine"}
	node := func(z, r, h string) map[string]string {
		return map[string]string{zone.Key: z, rack.Key: r, host.Key: h, own.Key: z}
	}
	labels := []map[string]string{node("a", "r0", "1"), node("a", "r0", "2"), node("a", "r1", "3"), node("b", "r2", "4"), {}}
	repeated := []map[string]string{node("a", "r0", "1"), node("b", "r0", "2")}
	const advice = ", which is broader: list the levels from the broadest to the narrowest"
	for name, tc := range map[string]struct {
		labels []map[string]string
		levels topology.Levels
		want   []string
	}{
		"in order": {labels, topology.Levels{zone, rack, host}, nil},
		"upside down": {labels, topology.Levels{host, rack, zone}, []string{
			"level 'host' (kubernetes.io/hostname) is above level 'rack' (topology.trellis.dev/rack)" + advice,
			"level 'rack' (topology.trellis.dev/rack) is above level 'zone' (topology.kubernetes.io/zone)" + advice,
		}},
		"one rack in each zone, of one name":          {repeated, topology.Levels{zone, rack}, nil},
		"the key says nothing":                        {labels, topology.Levels{rack, own}, nil},
		"the labels contradict: a rack in both zones": {append(repeated, node("b", "r1", "3")), topology.Levels{rack, zone}, nil},
		"no nodes": {nil, topology.Levels{host, rack}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, r := range FindReversed(tc.labels, tc.levels) {
				got = append(got, r.String())
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}
