// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package suite

import "testing"

func TestSpecsAreLeftToGinkgo(t *testing.T) {
	t.Setenv(specsVariable, "skip")
	ran := false
	t.Run("a suite", func(t *testing.T) {
		Run(t, "Empty", Default)
		ran = true
	})
	if ran {
		t.Errorf("%s=skip: the specs ran", specsVariable)
	}
}
