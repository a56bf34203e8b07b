// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"fmt"

	"github.com/trellis-k8s/trellis/internal/topology"
)

// maxElsewhere is the maximum number of domains that are examined to find another domain for a gang that does not fit where its graph is
// anchored.
const maxElsewhere = 256

// elsewhere returns another domain of the anchor's level that would hold the unit; nil for none.
func (s *search) elsewhere(u *unit, anchor topology.DomainID) topology.Path {
	tries := 0
	for i, d := range s.tree.Domains(s.tree.LevelOf(anchor), topology.Root) {
		if i == maxElsewhere || tries == closestTries {
			return nil
		}
		if d == anchor || atMost(u, d) < u.size {
			continue
		}
		before := s.here()
		fits := s.fits(u, d)
		s.back(before)
		if fits {
			return s.tree.Path(d)
		}
		tries++
	}
	return nil
}

// seeExplain names the command that tests whether a restart helps. The operator does not test this itself, to avoid the cost of a second
// plan.
const seeExplain = " (see kubectl trellis explain)"

// anchored is the short form of elsewhereText, without domain names.
const anchored = "another domain has capacity, but running pods anchor the graph" + seeExplain

// elsewhereText states that the anchor keeps the replica out of a domain with capacity. That domain may still be too small for the whole
// graph.
func (r *Refusal) elsewhereText() string {
	if len(r.Elsewhere) == 0 {
		return ""
	}
	return fmt.Sprintf("%s has capacity, but running pods anchor the graph in %s%s", pathText(r.Elsewhere), pathText(r.Within), seeExplain)
}
