// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package input

import "testing"

// The enumeration has every leaf that a text search finds.
func TestEveryLeafIsThere(t *testing.T) {
	for _, k := range kinds() {
		ends, all := 0, k.leaves()
		seen := map[string]bool{}
		for _, l := range all {
			if seen[l.path] {
				t.Errorf("%s is there twice", l)
			}
			seen[l.path] = true
			if l.ends() {
				ends++
			}
		}
		t.Logf("%s: %d leaves, %d fields above them", k, ends, len(all)-ends)
		if want := countEnds(k.schema.Properties["spec"]) + countEnds(k.schema.Properties["status"]); ends != want {
			t.Errorf("%s: %d leaves, want %d", k, ends, want)
		}
	}
}

func countEnds(s schema) int {
	if s.Type == "" && !s.XIntOrString && s.XPreserveUnknownFields == nil && ends(&s) {
		return 0 // there is no such part
	}
	if ends(&s) {
		return 1
	}
	n := 0
	for _, child := range s.Properties {
		n += countEnds(child)
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
		n += countEnds(*s.AdditionalProperties.Schema)
	}
	if s.Items != nil && s.Items.Schema != nil {
		n += countEnds(*s.Items.Schema)
	}
	return n
}
