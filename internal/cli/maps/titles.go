// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package maps

import (
	"fmt"

	"github.com/trellis-k8s/trellis/internal/cli/tree"
)

// freeText returns the free and the total amount of a domain as text, such as "3 of 8 free".
func freeText(d *tree.Domain) string {
	if d.Amount == nil {
		return ""
	}
	return fmt.Sprintf("%d of %d free", d.Free, d.Total)
}

// titles returns the titles of sibling boxes; racks have short titles if there is little space.
func (s scale) titles(list []*tree.Domain) []string {
	names := make([]string, 0, len(list))
	short := s.letter == 0
	for _, d := range list {
		names, short = append(names, d.Name), short && isRack(d)
	}
	if short {
		names = shortNames(names, false)
	}
	for i, d := range list {
		if !short || names[i] == "" {
			names[i] = d.Title()
		}
	}
	return names
}

// maxTitle is the maximum width that a box reserves for its title. A longer title may be cut.
const maxTitle, titleGap = 170, 8

// titleWidth returns the width that a box needs for its title and sum.
func (s scale) titleWidth(title, sum string) int {
	return 2*s.pad + min(fontTitle.width(title), maxTitle) + titleGap + fontSum.width(sum)
}

// titleSpace returns the width that a box has for its title next to the sum.
func (s scale) titleSpace(b *box) int {
	if b.sum == "" {
		return b.w - 2*s.pad
	}
	return b.w - 2*s.pad - titleGap - fontSum.width(b.sum)
}

// names returns the labels of hosts.
func (s scale) names(hosts []*tree.Domain) []string {
	names := make([]string, 0, len(hosts))
	for _, d := range hosts {
		names = append(names, d.Name)
	}
	return labels(names, s.words)
}
