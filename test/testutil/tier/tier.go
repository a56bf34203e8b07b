// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package tier selects the tests to run. make test runs the core tier, which takes a few minutes and covers nearly all code; make test-all,
// and go test by default, run all tests. Tests that repeat others or take long call All first:
//
//	func TestRandomLife(t *testing.T) {
//		tier.All(t)
package tier

import (
	"fmt"
	"os"
	"testing"
)

// variable is the environment variable with the tier: core, or all, which is the default.
const variable = "TRELLIS_TESTS"

// All skips a test, or the rest of it, if only the core tier runs.
func All(t testing.TB) {
	t.Helper()
	if Core() {
		t.Skip("not in the core tier: make test-all runs it")
	}
}

// Core reports whether only the core tier runs.
func Core() bool {
	switch tests := os.Getenv(variable); tests {
	case "", "all":
		return false
	case "core":
		return true
	default:
		panic(fmt.Sprintf("%s=%s: want core or all", variable, tests))
	}
}
