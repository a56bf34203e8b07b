// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package bools

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCompare(t *testing.T) {
	list := []bool{true, false, true, false}
	slices.SortFunc(list, Compare)
	if diff := cmp.Diff([]bool{false, false, true, true}, list); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
