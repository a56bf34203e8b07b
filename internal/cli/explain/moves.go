// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"

	"github.com/trellis-k8s/trellis/internal/repack"
	"github.com/trellis-k8s/trellis/internal/whatif"
)

// moves are those that would free a place for the first gang that waits; nil for none.
func (s *Subject) moves(planner *whatif.Planner, plan *whatif.Plan) *Moves {
	found := planner.Moves(*plan, repack.Limits{Now: s.Now, InOrder: true})
	if found == nil || found.Plan == nil || len(found.Plan.Moves) == 0 {
		return nil
	}
	return &Moves{
		Gang: found.Gang, Domain: found.Plan.Domains[0].String(), Replicas: found.Plan.Cost.Replicas, GPUs: found.Plan.Cost.GPUs,
		Command: fmt.Sprintf("kubectl trellis repack --for %s -n %s", s.DGD.Name, s.DGD.Namespace),
	}
}
