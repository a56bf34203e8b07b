// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

// Blocker is a Rule that may keep its pods off every node, regardless of capacity and other pods, until an object changes.
type Blocker interface {
	Rule
	// Blocked returns the reason that keeps the pods off every node; "" for none.
	Blocked() string
}

// Blocked returns the reason that keeps pods of the shape off every node regardless of capacity; "" for none.
func (s *Shape) Blocked() string {
	for _, r := range s.rules {
		if b, is := r.(Blocker); is {
			if why := b.Blocked(); why != "" {
				return why
			}
		}
	}
	return ""
}
