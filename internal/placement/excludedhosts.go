// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"cmp"
	"slices"
	"strings"

	"github.com/trellis-k8s/trellis/internal/topology"
)

// exclusions counts hosts by the reason why they take no pod. The zero value is ready to use.
type exclusions struct {
	list []Excluded
	at   map[topology.Exclusion]int
	last int
}

// add counts one host. It compares the previous reason first, because successive hosts are often excluded for the same reason.
func (x *exclusions) add(why topology.Exclusion) {
	why.Have, why.Need = 0, 0
	if len(x.list) == 0 || x.list[x.last].Reason != why {
		x.last = x.find(why)
	}
	x.list[x.last].Hosts++
}

func (x *exclusions) find(why topology.Exclusion) int {
	at, known := x.at[why]
	if !known {
		if x.at == nil {
			x.at = map[topology.Exclusion]int{}
		}
		at = len(x.list)
		x.at[why], x.list = at, append(x.list, Excluded{Reason: why})
	}
	return at
}

// sorted returns the reasons, most frequent first. add must not be called afterwards.
func (x *exclusions) sorted() []Excluded {
	slices.SortFunc(x.list, func(a, b Excluded) int {
		return cmp.Or(-cmp.Compare(a.Hosts, b.Hosts), strings.Compare(a.Reason.String(), b.Reason.String()))
	})
	return x.list
}
