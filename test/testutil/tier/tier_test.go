// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package tier

import "testing"

func TestAll(t *testing.T) {
	for value, skipped := range map[string]bool{"": false, "all": false, "core": true} {
		t.Run(value, func(t *testing.T) {
			t.Setenv(variable, value)
			ran := false
			t.Run("a test of all", func(t *testing.T) {
				All(t)
				ran = true
			})
			if ran == skipped {
				t.Errorf("%s=%s: the test ran %t, want %t", variable, value, ran, !skipped)
			}
		})
	}
}

func TestUnknownTier(t *testing.T) {
	t.Setenv(variable, "cor")
	defer func() {
		if recover() == nil {
			t.Errorf("%s=cor chooses tests; want a panic: a misspelt tier must not look like one that passed", variable)
		}
	}()
	Core()
}
