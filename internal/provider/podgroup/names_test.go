// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package podgroup

import "testing"

// TestSameReplica: the groups of a replica differ in their generation only. Names of other clients may have no generation.
func TestSameReplica(t *testing.T) {
	for pair, want := range map[[2]string]bool{
		{"g-9983-worker-0-abcde", "g-9983-worker-0-vwxyz"}: true,
		{"g-9983-worker-0-abcde", "g-9983-worker-0-abcde"}: true,
		{"g-9983-worker-0-abcde", "g-9983-worker-1-abcde"}: false,
		{"g-9983-worker-0-abcde", "g-9984-worker-0-abcde"}: false,
		{"train", "other"}: false, {"train", "train"}: true, {"", "g-9983-worker-0-abcde"}: false,
	} {
		if got := SameReplica(pair[0], pair[1]); got != want {
			t.Errorf("%q and %q: %t, want %t", pair[0], pair[1], got, want)
		}
	}
}
