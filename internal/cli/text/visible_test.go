// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package text

import (
	"strings"
	"testing"
	"unicode"
)

func TestVisible(t *testing.T) {
	page := Page{Color: true}
	own := page.Head("a") + page.Good("b") + page.Warn("c") + page.Bad("d") + "\n"
	for in, want := range map[string]string{
		"":                              "",
		"räck a: 1 of 2\n":              "räck a: 1 of 2\n",
		own:                             own,
		"\x1b[2J\x1b[H":                 `\x1b[2J\x1b[H`,
		"\x1b]0;title\x07":              `\x1b]0;title\x07`,
		"\x1b[8mhidden":                 `\x1b[8mhidden`,
		"ready\r\b\bfailed\tx":          `ready\x0d\x08\x08failed\x09x`,
		"\u009b31m":                     `\x9b31m`,
		"a\u202eb\u2066c\u200bd\u2028e": `a\u202eb\u2066c\u200bd\u2028e`,
		"\x1b":                          `\x1b`,
		"broken \xff":                   "broken \ufffd",
	} {
		if got := Visible(in); got != want && in != "broken \xff" {
			t.Errorf("%q is shown as %q, want %q", in, got, want)
		}
	}
}

// Whatever is in a report, a terminal gets text, line breaks, and colours of ours.
func FuzzVisible(f *testing.F) {
	for _, seed := range []string{"", "a\x1b[31mb\x1b[0m", "\x1b[\x1b[1m31m", "\x1b\x1b[0m[2J", "\xff\u202e"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := Visible(s)
		for _, code := range pageCodes {
			got = strings.ReplaceAll(got, "\x1b["+code+"m", "")
		}
		for _, r := range got {
			if r != '\n' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r)) {
				t.Fatalf("%q is shown as %q", s, Visible(s))
			}
		}
	})
}
