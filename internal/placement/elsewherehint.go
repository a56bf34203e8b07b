// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"fmt"

	"github.com/trellis-k8s/trellis/internal/topology"
)

// maxElsewhere is how many domains are looked at for one that would hold what its graph's anchor keeps out.
const maxElsewhere = 256

// elsewhere returns a domain alongside the anchor, of its level, that would hold the unit.
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

// seeExplain names the command that tries whether a restart helps: the operator pays no second plan for it.
const seeExplain = " (see kubectl trellis explain)"

// anchored is elsewhereText without the names of domains.
const anchored = "another domain has capacity, but running pods anchor the graph" + seeExplain

// elsewhereText says that the anchor is what binds. The other domain has capacity for this replica, which does not mean for all of the
// graph.
func (r *Refusal) elsewhereText() string {
	if len(r.Elsewhere) == 0 {
		return ""
	}
	return fmt.Sprintf("%s has capacity, but running pods anchor the graph in %s%s", pathText(r.Elsewhere), pathText(r.Within), seeExplain)
}
