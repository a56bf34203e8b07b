// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package maps

import "strings"

// Widths of letters at 12 pixels, in thousandths of a pixel. They are those of DejaVu Sans, the widest of the fonts that browsers fall
// back on, so that a line that is found to fit does so in every font.
const (
	widthNarrow  = 3900
	widthDefault = 7500
	widthCapital = 8500
	widthWide    = 11000
)

// textWidth is about how wide a text of 12 pixels is at most.
func textWidth(s string) int {
	sum := 0
	for _, r := range s {
		switch {
		case strings.ContainsRune(" ijl.,:;'|!/-()[]", r):
			sum += widthNarrow
		case strings.ContainsRune("mwMW@%", r):
			sum += widthWide
		case r >= 'A' && r <= 'Z':
			sum += widthCapital
		default:
			sum += widthDefault
		}
	}
	return (sum + 999) / 1000
}

// wrap breaks a text between words into lines of this width.
func wrap(s string, width int) []string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(s) {
		switch {
		case line == "":
			line = word
		case textWidth(line+" "+word) > width:
			lines, line = append(lines, line), word
		default:
			line += " " + word
		}
	}
	return append(lines, line)
}
