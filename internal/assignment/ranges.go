// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package assignment

import (
	"cmp"
	"strconv"
	"strings"
)

// WriteRanges formats sorted ordinals as "0-7,12".
func WriteRanges(ordinals []int32) string {
	var out []byte
	for i := 0; i < len(ordinals); {
		last := i
		for last+1 < len(ordinals) && ordinals[last+1] == ordinals[last]+1 {
			last++
		}
		if i > 0 {
			out = append(out, ',')
		}
		out = strconv.AppendInt(out, int64(ordinals[i]), 10)
		if last > i {
			out = append(out, '-')
			out = strconv.AppendInt(out, int64(ordinals[last]), 10)
		}
		i = last + 1
	}
	return string(out)
}

// maxOrdinal is the highest ordinal that ReadRanges accepts.
const maxOrdinal = 1<<17 - 1

// ReadRanges calls yield with each ordinal of the ranges, until yield returns false. It skips invalid ranges.
func ReadRanges(text string, yield func(int32) bool) {
	if text == "" {
		return
	}
	for part := range strings.SplitSeq(text, ",") {
		first, last, isRange := strings.Cut(part, "-")
		from, err := strconv.ParseInt(first, 10, 32)
		to, errTo := from, error(nil)
		if isRange {
			to, errTo = strconv.ParseInt(last, 10, 32)
		}
		if cmp.Or(err, errTo) != nil || from < 0 || to < from || to > maxOrdinal {
			continue
		}
		for n := from; n <= to; n++ {
			if !yield(int32(n)) {
				return
			}
		}
	}
}
