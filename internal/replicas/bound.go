// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package replicas

import (
	"fmt"
	"math"
	"slices"
	"strings"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/graph"
	"github.com/trellis-k8s/trellis/internal/validation"
)

// Bound is the deployment with no more replicas than limit allows its pods to be, and why it is not the deployment itself, or "". Admission
// refuses such a deployment; this one was stored without it, or before the bound.
//
// Replicas that exist are kept, whatever the limit. What the limit leaves is given out in the order of the services' names: one replica to each
// service that has none, then the rest. A replica that does not fit whole is not begun. A service that asks for larger replicas than it has keeps
// those it has. groups are the deployment's scaling groups by service.
func Bound(dgd *nvidiav1beta1.DynamoGraphDeployment, groups map[string]*trellisv1alpha1.ScalingGroup, limit int64) (bounded *nvidiav1beta1.DynamoGraphDeployment, why string) {
	why = exceeded(dgd, limit)
	if why == "" {
		return dgd, ""
	}
	shares := make([]*share, 0, len(dgd.Spec.Components))
	left := limit
	if limit == 0 {
		left = math.MaxInt64
	}
	for _, c := range graph.Components(dgd) {
		s := newShare(c, groups[c.Name])
		left -= min(int64(s.given)*int64(s.nodes), max(left, 0)) // never below 0
		shares = append(shares, s)
	}
	for _, s := range shares {
		if s.given == 0 {
			left = s.grow(left, 1)
		}
	}
	for _, s := range shares {
		left = s.grow(left, s.wanted)
	}
	out := *dgd
	out.Spec.Components = slices.Clone(dgd.Spec.Components)
	var short []string
	for _, s := range shares {
		*out.Component(s.name) = s.spec()
		if s.given < s.wanted {
			short = append(short, fmt.Sprintf("%s has %d of %d replicas", s.name, s.given, s.wanted))
		}
	}
	if len(short) > 3 {
		short = append(short[:3], fmt.Sprintf("%d more components", len(short)-3))
	}
	if len(short) > 0 {
		why += "; " + strings.Join(short, ", ")
	}
	return &out, why + "; pods that exist are kept, and none is made beyond the bound; lower replicas or nodeCount"
}

// exceeded says which bound the deployment exceeds, or "".
func exceeded(dgd *nvidiav1beta1.DynamoGraphDeployment, limit int64) string {
	if why := validation.OverLimit(dgd, limit); why != "" {
		return why
	}
	if errs := validation.PodLimit(dgd, nil, 0); len(errs) > 0 {
		return errs.ToAggregate().Error()
	}
	return ""
}

// share is what one service is given.
type share struct {
	name string
	from *nvidiav1beta1.ComponentSpec
	// wanted and given are numbers of replicas, nodes the number of pods of each.
	wanted, given, nodes int32
	// fixed: no replica is added.
	fixed bool
}

func newShare(spec *nvidiav1beta1.ComponentSpec, sg *trellisv1alpha1.ScalingGroup) *share {
	s := &share{name: spec.Name, from: spec, wanted: max(0, Of(spec)), nodes: podsOf(spec)}
	if sg != nil {
		there := sg.Status.Replicas
		if sg.Status.ObservedGeneration != sg.Generation {
			there = sg.Spec.Replicas // not counted yet
		}
		s.given = min(s.wanted, there)
		if has := graph.PodsPerReplica(sg); there > 0 && has < s.nodes {
			s.nodes, s.fixed = has, true
		}
	}
	if s.nodes > nvidiav1beta1.MaxNodeCount {
		s.fixed = true
		if s.given == 0 {
			s.nodes = nvidiav1beta1.MaxNodeCount // what a scaling group may hold
		}
	}
	return s
}

// grow gives up to replicas in all, as far as the pods left go, and returns what is left.
func (s *share) grow(left int64, replicas int32) int64 {
	replicas = min(replicas, s.wanted, nvidiav1beta1.MaxReplicas)
	if s.fixed || left <= 0 || replicas <= s.given {
		return left
	}
	more := min(int64(replicas-s.given), left/int64(s.nodes))
	s.given += int32(more)
	return left - more*int64(s.nodes)
}

func (s *share) spec() nvidiav1beta1.ComponentSpec {
	out := *s.from
	out.Replicas = &s.given
	if out.Multinode != nil && podsOf(s.from) != s.nodes {
		multinode := *out.Multinode
		multinode.NodeCount = s.nodes
		out.Multinode = &multinode
	}
	return out
}

// podsOf is the number of pods of one replica.
func podsOf(spec *nvidiav1beta1.ComponentSpec) int32 {
	n, _ := spec.PodsPerReplica()
	return n
}
