// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package dynamographdeployment

import (
	"strings"
	"testing"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/gang"
)

// A component that lists little leaves its share of the space to the others.
func TestSpaceForPlacesIsShared(t *testing.T) {
	of := func(name string, replicas, length int) component {
		sg := &trellisv1alpha1.ScalingGroup{}
		for n := range replicas {
			sg.Status.Placements = append(sg.Status.Placements, trellisv1alpha1.ReplicaPlacement{Replica: int32(n), Domain: strings.Repeat("l", length), Bound: true})
		}
		return component{name: name, group: sg}
	}
	got := placesOf([]component{of("large", 64, 8000), of("small", 1, 10), of("larger", 64, 9000), {name: "none"}})
	total := 0
	for _, p := range got {
		total += gang.SizeOfPlacements(p.listed)
	}
	if large, larger := len(got["large"].listed), len(got["larger"].listed); len(got["small"].listed) != 1 || large < 15 || larger < 13 || total > placementBytes {
		t.Errorf("%d, %d and %d are listed in %d bytes", len(got["small"].listed), large, larger, total)
	}
}
