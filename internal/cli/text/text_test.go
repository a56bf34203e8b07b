// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package text

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func words(n int) string { return strings.TrimSpace(strings.Repeat("word ", n)) }

func TestWrap(t *testing.T) {
	for name, tc := range map[string]struct{ text, want string }{
		"short":      {"one line", "one line"},
		"empty":      {"", ""},
		"long":       {words(25), words(20) + "\n  " + words(5)},
		"indented":   {"    " + words(25), "    " + words(19) + "\n  " + words(6)},
		"aligned":    {"Client:   " + words(19), "Client:   " + words(18) + "\n  word"},
		"one word":   {strings.Repeat("x", 120), strings.Repeat("x", 120)},
		"many lines": {"a   b\n" + words(21) + "\nc", "a   b\n" + words(20) + "\n  word\nc"},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, Wrap(tc.text, "  ")); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestTable(t *testing.T) {
	rows := [][]string{{"NAME", "USED", "OF"}, {"│ a", "7", "b"}, {"only"}, {"", "10"}}
	want := "NAME  USED  OF\n│ a      7  b\nonly\n        10\n"
	if diff := cmp.Diff(want, Table(rows, 2, 1)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
