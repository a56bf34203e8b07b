// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package volumes

// Compared is how often the affinity of a volume was compared with a node, and read.
func (s *Store) Compared() (matched, parsed int) { return s.matched, s.parsed }
