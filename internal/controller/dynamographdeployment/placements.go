// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package dynamographdeployment

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/gang"
)

const (
	// maxPlacements is the number of replicas per component whose places are listed.
	maxPlacements = 64
	// placementBytes bounds the size of the places of all components in the status. The API server accepts objects of up to 1.5 MiB.
	placementBytes = 256 << 10
)

// places are the places that a component should list, and those for which there is space.
type places struct {
	bound, listed []trellisv1alpha1.ReplicaPlacement
}

// placesOf shares the space among the components: those that need less than an equal share leave the rest to the others.
func placesOf(components []component) map[string]places {
	all := map[string][]trellisv1alpha1.ReplicaPlacement{}
	for _, s := range components {
		if s.group != nil {
			all[s.name] = s.bound()
		}
	}
	names := slices.SortedFunc(maps.Keys(all), func(a, b string) int {
		return cmp.Or(cmp.Compare(gang.SizeOfPlacements(all[a]), gang.SizeOfPlacements(all[b])), strings.Compare(a, b))
	})
	left, out := placementBytes, map[string]places{}
	for i, name := range names {
		listed := gang.PlacementBudget{Listed: left / (len(names) - i)}.Cut(all[name]).Listed
		left -= gang.SizeOfPlacements(listed)
		out[name] = places{all[name], listed}
	}
	return out
}

// bound returns the places to list: those of the first maxPlacements replicas whose pods are all bound.
func (s component) bound() []trellisv1alpha1.ReplicaPlacement {
	var out []trellisv1alpha1.ReplicaPlacement
	for _, p := range gang.Placements(&s.group.Status) {
		if p.Bound && len(out) < maxPlacements {
			out = append(out, p)
		}
	}
	return out
}

// placementsCondition names the components that cannot list all their places; nil for none.
func placementsCondition(cut []string) *condition {
	if len(cut) == 0 {
		return nil
	}
	return no(nvidiav1beta1.ConditionPlacementsComplete, nvidiav1beta1.ReasonPlacementsShortened, fmt.Sprintf(
		"the status has no room for the places of all replicas that it should list: %s; kubectl trellis explain shows all", strings.Join(cut,
			", ")))
}
