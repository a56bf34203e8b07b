// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package claims

// Forget drops the answers that are kept.
func (s *Store) Forget() {
	clear(s.answers)
	clear(s.hosts)
}

// Asked is how often the allocator was asked.
func (s *Store) Asked() int { return s.asked }

// Hosts is how many nodes are remembered.
func (s *Store) Hosts() int { return len(s.hosts) }

// MaxGone bounds those of them that are gone.
const MaxGone = maxGone
