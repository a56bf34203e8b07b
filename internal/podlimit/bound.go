// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package podlimit counts the pods that a deployment requests, and reduces its replicas if the pods exceed a limit. Package validation
// contains the messages about the limit.
package podlimit

import (
	"math"
	"slices"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/render"
)

// Default is the maximum number of pods in one graph if the operator is not configured otherwise.
const Default = 10_000

// Pods returns the number of pods that a deployment requests: replicas x nodeCount, summed over its components, at most math.MaxInt64.
func Pods(dgd *nvidiav1beta1.DynamoGraphDeployment) int64 {
	var sum int64
	for i := range dgd.Spec.Components {
		pods := PodsOf(&dgd.Spec.Components[i])
		if pods > math.MaxInt64-sum {
			return math.MaxInt64
		}
		sum += pods
	}
	return sum
}

// PodsOf returns the number of pods of one component. The product of two int32 values fits an int64.
func PodsOf(c *nvidiav1beta1.ComponentSpec) int64 {
	return int64(max(0, replicasOf(c))) * int64(nodesOf(c))
}

// Short is a component that gets fewer replicas than it requests.
type Short struct {
	Component     string
	Given, Wanted int32
}

// Bound returns the deployment with its replicas reduced to the pod limit, and with each component reduced to the API's maxima. If no
// reduction is necessary, it returns the deployment itself. Admission refuses larger deployments, but an object may have been stored
// without admission or before the limit was set. A limit of 0 means no limit.
//
// Bound keeps existing replicas regardless of the limit. It assigns the remaining pods in the order of component names: first one replica
// to each component without replicas, then all further replicas. It adds only entire replicas. If a component requests more pods per
// replica than its existing replicas have, Bound keeps the existing replicas and adds none. groups are the deployment's scaling groups by
// component.
func Bound(dgd *nvidiav1beta1.DynamoGraphDeployment, groups map[string]*trellisv1alpha1.ScalingGroup,
	limit int64) (*nvidiav1beta1.DynamoGraphDeployment, []Short) {
	if within(dgd, limit) {
		return dgd, nil
	}
	shares := make([]*share, 0, len(dgd.Spec.Components))
	left := limit
	if limit == 0 {
		left = math.MaxInt64
	}
	for _, c := range render.Components(dgd) {
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
	var short []Short
	for _, s := range shares {
		*out.Component(s.name) = s.spec()
		if s.given < s.wanted {
			short = append(short, Short{s.name, s.given, s.wanted})
		}
	}
	return &out, short
}

// within reports whether the deployment is within the limit, and each component is within the API's maxima.
func within(dgd *nvidiav1beta1.DynamoGraphDeployment, limit int64) bool {
	if limit > 0 && Pods(dgd) > limit {
		return false
	}
	return !slices.ContainsFunc(dgd.Spec.Components, func(c nvidiav1beta1.ComponentSpec) bool {
		return replicasOf(&c) > nvidiav1beta1.MaxReplicas || nodesOf(&c) > nvidiav1beta1.MaxNodeCount
	})
}

// share is the number of replicas that one component gets.
type share struct {
	name string
	from *nvidiav1beta1.ComponentSpec
	// wanted and given are numbers of replicas; nodes is the number of pods of each replica.
	wanted, given, nodes int32
	// fixed: no replica may be added.
	fixed bool
}

func newShare(spec *nvidiav1beta1.ComponentSpec, sg *trellisv1alpha1.ScalingGroup) *share {
	s := &share{name: spec.Name, from: spec, wanted: max(0, replicasOf(spec)), nodes: nodesOf(spec)}
	if sg != nil {
		there := sg.Status.Replicas
		if sg.Status.ObservedGeneration != sg.Generation {
			there = sg.Spec.Replicas // the status does not count them yet
		}
		s.given = min(s.wanted, there)
		if has := render.PodsPerReplica(sg); there > 0 && has < s.nodes {
			s.nodes, s.fixed = has, true
		}
	}
	if s.nodes > nvidiav1beta1.MaxNodeCount {
		s.fixed = true
		if s.given == 0 {
			s.nodes = nvidiav1beta1.MaxNodeCount // the maximum for a scaling group
		}
	}
	return s
}

// grow raises s.given to the argument replicas, as far as the remaining pods, left, suffice for entire replicas. It returns how many pods
// remain afterwards.
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
	if out.Multinode != nil && nodesOf(s.from) != s.nodes {
		multinode := *out.Multinode
		multinode.NodeCount = s.nodes
		out.Multinode = &multinode
	}
	return out
}

// replicasOf returns the number of replicas in a component's spec.
func replicasOf(c *nvidiav1beta1.ComponentSpec) int32 {
	if c.Replicas == nil {
		return 1
	}
	return *c.Replicas
}

// nodesOf returns the number of pods of one replica.
func nodesOf(c *nvidiav1beta1.ComponentSpec) int32 {
	n, _ := c.PodsPerReplica()
	return n
}
