// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package whatif

import (
	"fmt"
	"slices"
	"strings"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/placement"
)

// NeverFits describes the gangs of a deployment that no domain could hold even without other pods, one sentence per cause: hosts are too
// few or too small, or their labels are unsuitable. It considers nodes, topologies and ignored resources, and only the replicas that start
// together. It returns nothing for an invalid deployment.
func (p *Planner) NeverFits(dgd *nvidiav1beta1.DynamoGraphDeployment) []string {
	p.Begin()
	defer p.Rollback()
	if len(p.Check(dgd)) > 0 {
		return nil
	}
	g, err := p.Plan(first(dgd))
	if err != nil {
		return nil
	}
	var causes []string
	components, unlabeled := map[string][]string{}, map[string]bool{}
	for _, r := range g.Replicas {
		if r.Reason == nil || r.Reason.Refusal == nil || r.Reason.Refusal.Never == nil {
			continue
		}
		why := r.Reason.Refusal.WhyNever()
		unlabeled[why] = r.Reason.Code == placement.CodeNoDomain
		if components[why] == nil {
			causes = append(causes, why)
		}
		if !slices.Contains(components[why], r.Component) {
			components[why] = append(components[why], r.Component)
		}
	}
	for i, why := range causes {
		fix := "; larger domains or hosts have to be added first"
		if unlabeled[why] {
			fix = "" // the cause says it already
		}
		causes[i] = fmt.Sprintf("%s will wait: %s%s", strings.Join(components[why], ", "), why, fix)
	}
	return causes
}

// first returns a copy of a deployment that wants only the replicas that start together.
func first(dgd *nvidiav1beta1.DynamoGraphDeployment) *nvidiav1beta1.DynamoGraphDeployment {
	dgd = dgd.DeepCopy()
	for i := range dgd.Spec.Components {
		c := &dgd.Spec.Components[i]
		least := int32(1)
		if c.MinAvailable != nil {
			least = max(least, *c.MinAvailable)
		}
		if c.Replicas != nil && *c.Replicas > least {
			c.Replicas = &least
		}
	}
	return dgd
}
