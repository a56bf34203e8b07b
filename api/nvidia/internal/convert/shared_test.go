// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"testing"

	"pgregory.net/rapid"
)

// A conversion shares parts of what it is given with what it returns, and with what it compares them with. It changes none in place.
func TestConversionLeavesItsInputAlone(t *testing.T) {
	for _, version := range []string{Alpha, Beta} {
		t.Run(version, func(t *testing.T) {
			objects := deployment(version)
			rapid.Check(t, func(t *rapid.T) {
				original := objects.Draw(t, "object")
				leftAlone(t, original, Other(version))
				there := convertTo(t, original, Other(version))
				leftAlone(t, there, version)
				// Edited, so that what is remembered is applied step by step.
				edited := convertTo(t, objects.Draw(t, "other"), Other(version))
				setAnnotation(ensure(edited, "metadata"), AnnotationSpec, textAt(objectAt(objectAt(there, "metadata"), "annotations"), AnnotationSpec))
				leftAlone(t, edited, version)
			})
		})
	}
}

func leftAlone(t *rapid.T, in object, to string) {
	before, _ := clone(in).(object)
	convertObject(in, to, true)
	same(t, "after a conversion to "+to, in, before)
}
