// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestNatural(t *testing.T) {
	want := []string{"", "a", "a1", "a02", "a2", "a2b", "a10", "a10-2", "a10-10", "b"}
	got := slices.Clone(want)
	slices.Reverse(got)
	slices.SortFunc(got, Natural)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestNotFoundStaysShort(t *testing.T) {
	err := NotFound("X", strings.Split(strings.Repeat("n,", 30)+"n", ","), "none")
	if !strings.HasSuffix(err.Error(), "n, 21 more") {
		t.Errorf("got %v", err)
	}
	if err := NotFound("X", nil, "none in this namespace"); err.Error() != "X not found; there are none in this namespace" {
		t.Errorf("got %v", err)
	}
}
