// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"

	"github.com/trellis-k8s/trellis/internal/cli/text"
	"github.com/trellis-k8s/trellis/internal/repack"
	"github.com/trellis-k8s/trellis/internal/whatif"
)

// moves returns the moves that would free a place for the first waiting gang; nil without such moves.
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

// advice returns the moves as advice. The report shows this advice before advice that removes pods permanently.
func (m *Moves) advice() Advice {
	where, moved := "", "have moved: each restarts once"
	if m.Domain != "" {
		where = " in " + m.Domain
	}
	if m.Replicas == 1 {
		moved = "has moved: it restarts once"
	}
	return Advice{
		Effect: fmt.Sprintf("%s fits%s after %s with %s %s.", m.Gang, where, text.Count(m.Replicas, "replica"),
			text.Count(int(m.GPUs), "GPU"), moved),
		Commands: []string{m.Command},
	}
}
