// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

// Blocker is a Rule that may keep its pods off every node, whatever is free and wherever other pods are, until an object changes.
type Blocker interface {
	Rule
	// Blocked describes what keeps them; "" for nothing.
	Blocked() string
}

// Blocked describes what keeps pods of the shape off every node, whatever is free; "" for nothing.
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
