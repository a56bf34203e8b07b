// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/intstr"
)

// UpTo limits the steps of an update to a partition. The partition is the part of the graph that the new generation replaces, as a number
// of steps or a percentage of the steps. The remaining part stays in earlier generations. With 2 prefill and 4 decode replicas, the
// partitions 1 and 50% both mean 1 prefill and 2 decode replicas. Fractions of replicas are rounded up.
//
// reached reports whether the new generation serves its part. A Recreate update replaces all replicas or none, and has no partition.
func UpTo(steps []Step, components []Component, partition intstr.IntOrString) (out []Step, reached bool) {
	if !Limits(components, partition) {
		return steps, false
	}
	limit := partOf(partition, components)
	out, reached = make([]Step, 0, len(steps)), true
	for i, c := range components {
		most := limit.of(c.Replicas)
		out = append(out, steps[i].upTo(most, one.minus(limit).of(c.Replicas), c))
		reached = reached && c.NewAvailable >= most
	}
	return out, reached
}

// Limits reports whether a partition keeps a part of the graph in earlier generations.
func Limits(components []Component, partition intstr.IntOrString) bool {
	return partOf(partition, components).less(one) && !slices.ContainsFunc(components, func(c Component) bool { return c.Recreate })
}

// upTo limits the new generation to "most" replicas, or to the number of replicas that earlier generations lack if this number is larger.
// Earlier generations keep the other replicas. "rest" is the part of the earlier generations, rounded up too. If it is larger than the
// number of the other replicas, the earlier generations keep "rest" replicas, as far as the surge has space.
func (s Step) upTo(most, rest int, c Component) Step {
	s.Make = min(s.Make, max(most, c.Replicas-c.Old))
	stay := max(c.Replicas-most, min(rest, c.Replicas+c.MaxSurge-most))
	if more := stay - s.Keep; more > 0 {
		s.Keep += more
		if s.Of = slices.Clone(s.Of); len(s.Of) > 0 {
			s.Of[0].Replicas += more
		}
	}
	return s
}

// partOf converts a partition to a part of the graph. The partition is a percentage or a number of steps. The total number of steps equals
// the number of replicas of the smallest component.
func partOf(value intstr.IntOrString, components []Component) part {
	if value.Type == intstr.String {
		percent, err := strconv.Atoi(strings.TrimSuffix(value.StrVal, "%"))
		if err != nil {
			return one // ControlOf accepts no such value
		}
		return part{int64(percent), 100}.min(one)
	}
	steps := math.MaxInt
	for _, c := range components {
		if c.Replicas > 0 {
			steps = min(steps, c.Replicas)
		}
	}
	return part{int64(value.IntVal), int64(steps)}.min(one)
}
