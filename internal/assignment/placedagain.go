// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package assignment

import trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"

// PlacedAgain reports whether a change of the spec has raised the lowest attempt of a recorded replica, so that pods of earlier attempts
// are no longer valid.
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
