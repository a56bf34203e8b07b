// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package tier chooses the tests that run. make test runs the core tier, which takes a few minutes and covers nearly all code; make
// test-all, and go test without more, run all tests. What repeats or takes long calls All first:
//
//	func TestRandomLife(t *testing.T) {
//		tier.All(t)
package tier

import (
	"fmt"
	"os"
	"testing"
)

// variable of the environment that chooses: core, or all, which is what it means when it is empty.
const variable = "TRELLIS_TESTS"

// All skips a test, or what is left of it, where only the core tier runs.
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
