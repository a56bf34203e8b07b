// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package maps

import "strings"

// The widths of the characters from space to tilde in DejaVu Sans, in thousandths of the font's size. DejaVu Sans is the widest of the
// usual fallback fonts of browsers, so a line that fits by these widths fits in every font.
var (
	plainLetters = [...]int{
		318, 401, 460, 838, 636, 950, 780, 275, 390, 390, 500, 838, 318, 361, 318, 337, 636, 636, 636, 636, 636, 636, 636, 636,
		636, 636, 337, 337, 838, 838, 838, 531, 1000, 684, 686, 698, 770, 632, 575, 775, 752, 295, 295, 656, 557, 863, 748, 787,
		603, 787, 695, 635, 611, 732, 684, 989, 685, 611, 685, 390, 337, 390, 838, 500, 500, 613, 635, 550, 635, 615, 352, 635,
		634, 278, 278, 579, 278, 974, 634, 612, 635, 635, 411, 521, 392, 634, 592, 818, 592, 592, 525, 636, 337, 636, 838,
	}
	boldLetters = [...]int{
		348, 456, 521, 838, 696, 1002, 872, 306, 457, 457, 523, 838, 380, 415, 380, 365, 696, 696, 696, 696, 696, 696, 696, 696,
		696, 696, 400, 400, 838, 838, 838, 580, 1000, 774, 762, 734, 830, 683, 683, 821, 837, 372, 372, 775, 637, 995, 837, 850,
		733, 850, 770, 720, 682, 812, 774, 1103, 771, 724, 725, 457, 365, 457, 838, 500, 500, 675, 716, 593, 716, 678, 435, 716,
		712, 343, 343, 665, 343, 1042, 712, 687, 716, 716, 493, 595, 478, 712, 652, 924, 645, 652, 582, 712, 365, 712, 838,
	}
)

// widthOther is the assumed width of any other character, in thousandths of the font's size. Characters of common fonts are not wider.
const widthOther = 1250

// font is a font of the drawing.
type font struct {
	size   int
	widths []int
}

// Fonts of sentences, sums, titles, and titles of folded racks.
var (
	fontText  = font{12, plainLetters[:]}
	fontSum   = font{11, plainLetters[:]}
	fontTitle = font{12, boldLetters[:]}
	fontSmall = font{10, boldLetters[:]}
)

// width returns the maximum width of a text.
func (f font) width(s string) int {
	sum := 0
	for _, r := range s {
		switch i := int(r - ' '); {
		case i >= 0 && i < len(f.widths):
			sum += f.widths[i]
		case r == '\u00b7':
			sum += widthOther / 3
		case r == '\u2026':
			sum += 1000
		default:
			sum += widthOther
		}
	}
	return (sum*f.size + 999) / 1000
}

// cut shortens a text to the width, with an ellipsis; "" if there is no space for a single letter.
func (f font) cut(s string, width int) string {
	if f.width(s) <= width {
		return s
	}
	r := []rune(s)
	for n := len(r) - 1; n > 0; n-- {
		if short := string(r[:n]) + "\u2026"; f.width(short) <= width {
			return short
		}
	}
	return ""
}

// middle shortens a name in the middle, because names differ at their ends.
func (f font) middle(s string, width int) string {
	const kept = 10
	r := []rune(s)
	if f.width(s) <= width || len(r) <= kept {
		return s
	}
	end := string(r[len(r)-kept:])
	return f.cut(string(r[:len(r)-kept]), width-f.width(end)) + end
}

// wrap wraps a text into lines of this width.
func wrap(s string, width int) []string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(s) {
		switch {
		case line == "":
			line = word
		case fontText.width(line+" "+word) > width:
			lines, line = append(lines, line), word
		default:
			line += " " + word
		}
	}
	return append(lines, line)
}
