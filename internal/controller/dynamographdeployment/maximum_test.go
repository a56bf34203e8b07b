// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package dynamographdeployment

import (
	"strings"
	"testing"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
)

// A component that lists little leaves its share of the space to the others.
func TestSpaceForPlacesIsShared(t *testing.T) {
	o := observed{judged: true}
	o.result.Places.Components = map[string][]nvidiav1beta1.ReplicaPlacement{}
	of := func(name string, replicas, length int) component {
		for n := range replicas {
			o.result.Places.Components[name] = append(o.result.Places.Components[name], nvidiav1beta1.ReplicaPlacement{Replica: int32(n), Domain: strings.Repeat("l", length)})
		}
		return component{name: name, group: &trellisv1alpha1.ScalingGroup{}}
	}
	got, cut := placesOf(o, []component{of("large", 64, 8000), of("small", 1, 10), of("larger", 64, 9000), {name: "none"}})
	total := 0
	for _, p := range got {
		total += sizeOf(p)
	}
	if large, larger := len(got["large"]), len(got["larger"]); len(got["small"]) != 1 || large < 15 || larger < 13 || total > placementBytes || len(cut) != 2 {
		t.Errorf("%d, %d and %d are listed in %d bytes, cut: %v", len(got["small"]), large, larger, total, cut)
	}
}
