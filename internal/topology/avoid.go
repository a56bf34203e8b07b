// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"slices"
	"strings"
)

// Avoiding returns the shape for pods that avoid some hosts regardless of free capacity. Such pods are pinned to their planned host,
// because the kube-scheduler does not know the list of avoided hosts.
func (s *Shape) Avoiding(hosts []string) *Shape {
	if len(hosts) == 0 {
		return s
	}
	out := *s
	out.avoid = slices.Sorted(slices.Values(hosts))
	out.key = s.key + "|avoid|" + strings.Join(out.avoid, "|")
	return &out
}
