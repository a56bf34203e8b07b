// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// withdraw ends planned creations before their offer. Their groups ask again.
func (b *Creations) withdraw(placed []plannedCreation) {
	b.mu.Lock()
	var tell []types.NamespacedName
	for _, p := range placed {
		for _, one := range slices.Collect(maps.Values(b.byName)) {
			if one.state == creationPlaced && one.gang != nil && one.gang.name == p.gang && one.key == p.key {
				b.remove(one)
				tell = append(tell, one.group)
			}
		}
	}
	b.mu.Unlock()
	b.tellAll(tell)
}
