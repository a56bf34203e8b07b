// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package text

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Visible escapes characters that a terminal would interpret, or that would hide or reorder text: ESC becomes \x1b. Reports contain foreign
// texts, such as notes of events and messages of conditions. Visible keeps line breaks and the codes that Page writes.
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

// written returns the colour code of Page at the beginning of a text; "" if the text begins with no such code.
func written(s string) string {
	for _, code := range pageCodes {
		if at := "\x1b[" + code + "m"; strings.HasPrefix(s, at) {
			return at
		}
	}
	return ""
}

// acts reports whether a terminal interprets a character instead of showing it. Characters of the Unicode category Cf join other characters
// or set the text direction, and have no width.
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
