// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package text

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Visible writes out what would act on a terminal, or hide or reorder text there, instead of being shown: ESC as \x1b. Reports hold what
// others wrote: notes of events, messages of conditions. Line breaks and the codes that Page writes stay.
func Visible(s string) string {
	if strings.IndexFunc(s, acts) < 0 {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		if code := written(s); code != "" {
			b.WriteString(code)
			s = s[len(code):]
			continue
		}
		r, size := utf8.DecodeRuneInString(s)
		b.WriteString(visible(r))
		s = s[size:]
	}
	return b.String()
}

// written is the code of Page that a text begins with, if it does.
func written(s string) string {
	for _, code := range pageCodes {
		if at := "\x1b[" + code + "m"; strings.HasPrefix(s, at) {
			return at
		}
	}
	return ""
}

// acts: the character is no text. Those of the category Cf join and direct what is alongside them, and have no width.
func acts(r rune) bool {
	return r != '\n' && (unicode.Is(unicode.Cc, r) || unicode.Is(unicode.Cf, r) || r == '\u2028' || r == '\u2029')
}

func visible(r rune) string {
	switch {
	case !acts(r):
		return string(r)
	case r < 0x100:
		return fmt.Sprintf(`\x%02x`, r)
	}
	return fmt.Sprintf(`\u%04x`, r)
}
