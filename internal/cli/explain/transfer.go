// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/placement"
	"github.com/trellis-k8s/trellis/internal/replicas"
	"github.com/trellis-k8s/trellis/internal/whatif"
)

// transfer describes how prefill and decode replicas share domains, and which scale-out would let more replicas share a domain. It returns
// nil if no policy places these replicas.
func (s *Subject) transfer(planner *whatif.Planner, plan *whatif.Plan, planned bool) []string {
	if plan.Transfer == nil {
		return nil
	}
	lines := []string{plan.Transfer.Text()}
	if alone := plan.Transfer.AloneText(); alone != "" {
		lines = append(lines, alone)
	}
	if planned && plan.Placed() {
		lines = append(lines, s.scaleOuts(planner, plan.Transfer)...)
	}
	return lines
}

// mostScaledOut is the maximum number of replicas that a planned scale-out adds.
const mostScaledOut = 4

// scaleOuts describes, for each role, the scale-out of this role that improves the sharing of domains most. It plans each scale-out, and
// drops the plan.
func (s *Subject) scaleOuts(planner *whatif.Planner, now *gang.Transfer) (lines []string) {
	for _, role := range []placement.Role{placement.Prefill, placement.Decode} {
		lacking := 0
		for _, in := range now.Alone() {
			if role == placement.Prefill && in.Prefill == 0 || role == placement.Decode && in.Decode == 0 {
				lacking++
			}
		}
		best, text := 0, ""
		for more := 1; more <= min(lacking, mostScaledOut); more++ {
			if paired, said := s.scaledOut(planner, now, role, int32(more)); paired > best {
				best, text = paired, said
			}
		}
		if text != "" {
			lines = append(lines, text)
		}
	}
	return lines
}

// scaledOut plans the deployment with more replicas of a role. It returns how many additional replicas of the other role would then share a
// domain with this role.
func (s *Subject) scaledOut(planner *whatif.Planner, now *gang.Transfer, role placement.Role, more int32) (paired int, text string) {
	dgd := s.DGD.DeepCopy()
	var scaled *nvidiav1beta1.ComponentSpec
	for i := range dgd.Spec.Components {
		if c := &dgd.Spec.Components[i]; string(c.Type) == role.String() && (scaled == nil || c.Name < scaled.Name) {
			scaled = c
		}
	}
	if scaled == nil {
		return 0, ""
	}
	before := replicas.Of(scaled)
	after := before + more
	scaled.Replicas = &after
	planner.Begin()
	plan, err := planner.Plan(dgd)
	planner.Rollback()
	if err != nil || plan.Transfer == nil || !plan.Placed() {
		return 0, ""
	}
	was, is := now.Decode, plan.Transfer.Decode
	if role == placement.Decode {
		was, is = now.Prefill, plan.Transfer.Prefill
	}
	return is.Paired - was.Paired, fmt.Sprintf("scaling %s from %d to %d would give %d of %d %s replicas %s in their %s",
		scaled.Name, before, after, is.Paired, is.Bound, is.Role, role, now.Level)
}
