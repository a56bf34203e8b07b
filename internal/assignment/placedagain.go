// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package assignment

import trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"

// PlacedAgain reports whether pods of a recorded replica do not count any more after a change of the spec: its lowest attempt has grown.
func PlacedAgain(was, now *trellisv1alpha1.GraphPlacementSpec) bool {
	if was.DeploymentUID != now.DeploymentUID {
		return false
	}
	before, after := Decode(was), Decode(now)
	for key := range before.keys() {
		if after.LowestAttempt(key) > before.LowestAttempt(key) {
			return true
		}
	}
	return false
}
