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
)

const (
	// placementBytes is the maximum size of the placements of all components in the status. The API server accepts objects of up to 1.5
	// MiB.
	placementBytes = 256 << 10
	// placementCost is the size in bytes of one listed placement without its domain, with a margin for the metadata.
	placementCost = 118
)

// placesOf returns, by component, the placements that the status lists: the placements of bound replicas in the scheduling result, up to
// the size limit. If a component needs less than an equal share of the limit, the other components get the remainder. cut names the
// components that list only some of their placements. Until the scheduler has evaluated the graph, the placements in the current status
// stay.
func placesOf(o observed, components []component) (out map[string][]nvidiav1beta1.ReplicaPlacement, cut []string) {
	all := map[string][]nvidiav1beta1.ReplicaPlacement{}
	for _, s := range components {
		switch {
		case s.group == nil:
		case o.judged:
			all[s.name] = o.result.Places.Components[s.name]
		default:
			all[s.name] = o.dgd.Status.Components[s.name].Placements
		}
	}
	names := slices.SortedFunc(maps.Keys(all), func(a, b string) int {
		return cmp.Or(cmp.Compare(sizeOf(all[a]), sizeOf(all[b])), strings.Compare(a, b))
	})
	left, out := placementBytes, map[string][]nvidiav1beta1.ReplicaPlacement{}
	for i, name := range names {
		out[name] = fitting(all[name], left/(len(names)-i))
		left -= sizeOf(out[name])
	}
	for _, s := range components {
		if len(out[s.name]) < len(all[s.name]) {
			cut = append(cut, fmt.Sprintf("%s lists %d of %d", s.name, len(out[s.name]), len(all[s.name])))
		}
	}
	return out, cut
}

// fitting returns the first placements, as many as fit into the given number of bytes.
func fitting(places []nvidiav1beta1.ReplicaPlacement, bytes int) []nvidiav1beta1.ReplicaPlacement {
	for i := range places {
		if bytes -= sizeOf(places[i : i+1]); bytes < 0 {
			return places[:i]
		}
	}
	return places
}

// sizeOf returns the size of placements in a status, in bytes.
func sizeOf(places []nvidiav1beta1.ReplicaPlacement) int {
	size := 0
	for i := range places {
		size += placementCost + len(places[i].Domain)
	}
	return size
}

// placementsCondition names the components whose placements do not all fit into the status; nil for none.
func placementsCondition(cut []string) *condition {
	if len(cut) == 0 {
		return nil
	}
	return no(nvidiav1beta1.ConditionPlacementsComplete, nvidiav1beta1.ReasonPlacementsShortened, fmt.Sprintf(
		"the status has no room for the places of all replicas that it should list: %s; kubectl trellis explain shows all", strings.Join(cut,
			", ")))
}
