// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"math"
	"slices"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
)

// Bounds limit an update, as numbers of replicas.
type Bounds struct{ MaxUnavailable, MaxSurge int }

// Within caps both bounds at a number of replicas, because the update of [InStep] never uses larger bounds.
func (b Bounds) Within(replicas int) Bounds {
	return Bounds{MaxUnavailable: min(b.MaxUnavailable, replicas), MaxSurge: min(b.MaxSurge, replicas)}
}

// Component has the replica counts of one worker component of a graph while a new generation of workers replaces earlier generations.
type Component struct {
	// Replicas is the desired number.
	Replicas int
	// Bounds of the component, not both 0.
	Bounds
	// Recreate: the old generation is removed before the new generation is created.
	Recreate bool
	// OldTerminating counts the replicas of earlier generations that have only terminating pods. Old counts all other replicas of earlier
	// generations.
	Old, OldTerminating int
	// Earlier lists the earlier generations with available replicas. If two generations serve equal parts of the graph, the first of them
	// in the list keeps its replicas longer.
	Earlier []Earlier
	// NewAvailable counts the available replicas of the new generation.
	NewAvailable int
}

// Earlier counts the available replicas of one component in one of the replaced generations.
type Earlier struct {
	Generation string
	Available  int
}

// Step limits how far the update of one component may go. A step alone never causes the removal of a replica.
type Step struct {
	// Keep is the number of available replicas of earlier generations that must stay.
	Keep int
	// Of divides Keep among the earlier generations. If Of is empty, it does not matter to which generation the kept replicas belong.
	Of []Kept
	// Make is the maximum number of replicas of the new generation.
	Make int
	// Paused: the update replaces no placed replica, whether the replica serves or not.
	Paused bool
	// Bounds of the component.
	Bounds
}

// Kept is the number of available replicas of one generation that must stay.
type Kept struct {
	Generation string
	Replicas   int
}

// Hold returns a step that replaces no available replica and creates only the replicas that the old generation lacks. So repair and
// scale-out continue during the step.
func Hold(c Component) Step {
	return Step{Keep: math.MaxInt32, Make: max(0, c.Replicas-c.Old), Bounds: c.Bounds}
}

// InStep decides how far the update of each component of a graph may go, so that the old generation shrinks and the new generation grows in
// the ratio of the components' replicas.
//
// A generation serves as much of the graph as its least complete component. With 2 prefill and 4 decode replicas wanted, 1 prefill and 2
// decode replicas serve a half, and so do 1 prefill and 3 decode replicas. If the new generation serves the part f, and the part u may be
// missing:
//
//	keep   ⌈(1 - f - u) · replicas⌉ of the old generation, in every component
//	make   ⌈(f + w) · replicas⌉ of the new generation, in every component
//
//	u      the smallest part that the MaxUnavailable of a component allows, but at least one replica of a component without surge
//	w      the smallest part that MaxUnavailable and MaxSurge of a component allow together, but at least u
//
// So the two generations together serve 1 - u of the graph at every moment, and a new generation that never becomes available never costs
// more than u. If the old generation serves nothing, the new generation is created immediately. See keeping for several earlier
// generations.
func InStep(components []Component) []Step {
	if slices.ContainsFunc(components, func(c Component) bool { return c.Recreate }) {
		return recreated(components)
	}
	missing, window := budget(components)
	served := least(components, func(c Component) int { return c.NewAvailable })
	keep, growth := one.minus(served).minus(missing), served.plus(window)
	earlier := earlierOf(components)
	if len(earlier) == 0 {
		growth = one
	}
	out := make([]Step, 0, len(components))
	for _, c := range components {
		out = append(out, Step{Keep: keep.of(c.Replicas), Make: min(growth.of(c.Replicas), c.Replicas), Bounds: c.Bounds})
	}
	keeping(components, earlier, keep, out)
	return out
}

// recreated removes the old generation of all components before it creates the new generation, because no component serves without the
// other components.
func recreated(components []Component) []Step {
	ended := !slices.ContainsFunc(components, func(c Component) bool { return c.Old+c.OldTerminating > 0 })
	out := make([]Step, 0, len(components))
	for _, c := range components {
		step := Step{Bounds: Bounds{MaxUnavailable: c.Replicas}}
		if ended {
			step.Make = c.Replicas
		}
		out = append(out, step)
	}
	return out
}

// Shared gives all components one common budget in steps. A step is one replica of the smallest component, and the corresponding number of
// replicas of each other component. With 2 prefill and 4 decode replicas, a step is 1 prefill and 2 decode replicas. With a budget of s
// steps, each component may lack, or have in surplus, the replicas of s steps, rounded up. Percentages refer to the number of steps, which
// is the number of replicas of the smallest component. Surge is rounded up and unavailability down. If both are 0, one step may be
// unavailable.
func Shared(strategy trellisv1alpha1.RolloutStrategy, replicas []int) []Bounds {
	steps := 0
	for _, n := range replicas {
		if n > 0 && (steps == 0 || n < steps) {
			steps = n
		}
	}
	budget := BoundsOf(&strategy, steps).Within(steps)
	out := make([]Bounds, 0, len(replicas))
	for _, n := range replicas {
		step := part{int64(n), int64(max(1, steps))}
		out = append(out, Bounds{MaxUnavailable: step.of(budget.MaxUnavailable), MaxSurge: step.of(budget.MaxSurge)}.Within(n))
	}
	return out
}

// budget returns the part of the graph that may be missing, and the part that may be replaced at once.
func budget(components []Component) (missing, window part) {
	missing = least(components, func(c Component) int { return c.MaxUnavailable })
	window = least(components, func(c Component) int { return c.MaxUnavailable + c.MaxSurge })
	for _, c := range components {
		if c.Replicas > 0 && c.MaxSurge == 0 {
			missing = missing.max(part{1, int64(c.Replicas)})
		}
	}
	return missing, window.max(missing)
}

// least divides the number that "of" returns for a component by the component's wanted replicas, and returns the lowest quotient, at most
// 1. It ignores components without wanted replicas.
func least(components []Component, of func(Component) int) part {
	out := one
	for _, c := range components {
		if c.Replicas > 0 {
			out = out.min(part{int64(of(c)), int64(c.Replicas)})
		}
	}
	return out
}

// part is a part of a graph, as a fraction. Numerators and denominators are products of at most two numbers of replicas, each at most
// 65536.
type part struct{ n, d int64 }

var one = part{1, 1}

func (p part) zero() bool { return p.n <= 0 }

func (p part) less(q part) bool { return p.n*q.d < q.n*p.d }

func (p part) min(q part) part {
	if q.less(p) {
		return q
	}
	return p
}

func (p part) max(q part) part {
	if p.less(q) {
		return q
	}
	return p
}

func (p part) minus(q part) part { return part{p.n*q.d - q.n*p.d, p.d * q.d} }

func (p part) plus(q part) part { return part{p.n*q.d + q.n*p.d, p.d * q.d} }

// of returns the part p of a number of replicas, rounded up; never less than 0.
func (p part) of(replicas int) int {
	return int(max(0, (p.n*int64(replicas)+p.d-1)/p.d))
}
