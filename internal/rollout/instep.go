// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"math"
	"slices"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
)

// Bounds of an update, as numbers of replicas.
type Bounds struct{ MaxUnavailable, MaxSurge int }

// Within caps both bounds at a number of replicas: no update in step uses more.
func (b Bounds) Within(replicas int) Bounds {
	return Bounds{MaxUnavailable: min(b.MaxUnavailable, replicas), MaxSurge: min(b.MaxSurge, replicas)}
}

// Component is one worker component of a graph while a generation of workers replaces another one: counts of replicas.
type Component struct {
	// Replicas wanted.
	Replicas int
	// Bounds of the component, not both 0.
	Bounds
	// Recreate: the old generation ends before the new one begins.
	Recreate bool
	// Old replicas that exist, of all earlier generations, and those of which only terminating pods are left.
	Old, OldTerminating int
	// Earlier generations that have available replicas. Of two that serve equally much, the one that comes first stays longer.
	Earlier []Earlier
	// NewAvailable replicas of the new generation.
	NewAvailable int
}

// Earlier counts the available replicas of one component in one of the generations that are being replaced.
type Earlier struct {
	Generation string
	Available  int
}

// Step is how far one component may go. It bounds what an update does, and never has a replica removed by itself.
type Step struct {
	// Keep so many available replicas of earlier generations.
	Keep int
	// Of says of which generations they are; empty: of any.
	Of []Kept
	// Make at most so many replicas of the new generation.
	Make int
	// Paused: no replica is replaced, whether it serves or not.
	Paused bool
	// Bounds of the component.
	Bounds
}

// Kept is how many available replicas of one generation stay.
type Kept struct {
	Generation string
	Replicas   int
}

// Hold is the step in which nothing available is replaced, and only what the old generation lacks is made: repair and scale-out continue,
// however long the step lasts.
func Hold(c Component) Step {
	return Step{Keep: math.MaxInt32, Make: max(0, c.Replicas-c.Old), Bounds: c.Bounds}
}

// InStep decides how far each component of a graph may go, so that the old generation shrinks and the new one grows in the ratio of their
// replicas.
//
// A generation serves as much of the graph as its least complete component: with 2 prefill and 4 decode wanted, 1 and 2 serve a half, and
// so do 1 and 3. With f served by the new generation, and u allowed to be missing:
//
//	keep   ⌈(1 - f - u) · replicas⌉ of the old generation, in every component
//	make   ⌈(f + w) · replicas⌉ of the new one
//
//	u      the least part of a component that its MaxUnavailable allows, but at least one replica where it has no surge
//	w      the least part that MaxUnavailable and MaxSurge allow together, but at least u
//
// So the two generations together serve 1 - u of the graph at every moment, and one that never becomes available never takes more than u.
// Where the old generation serves nothing, the new one is created immediately. Where there are several earlier generations, see keeping.
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

// recreated has the old generation end before the new one begins: that of all components, since none of them serves without the others.
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

// Shared bounds components by one budget for all of them, in steps: with s steps, each component may miss, or have more than wanted, as
// many replicas as make s of the smallest one, rounded up. Of 2 prefill and 4 decode a step is 1 and 2. Percentages are of the steps there
// are, which are as many as the smallest component has replicas: surge rounds up, unavailability down, and where both come to 0 one step
// may be unavailable.
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

// budget is how much of the graph may be missing, and how much of it is replaced at the same time.
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

// least is the smallest part that a number of replicas is of those wanted; all of it where none is wanted.
func least(components []Component, of func(Component) int) part {
	out := one
	for _, c := range components {
		if c.Replicas > 0 {
			out = out.min(part{int64(of(c)), int64(c.Replicas)})
		}
	}
	return out
}

// part of a graph, as a fraction. Numerators and denominators are products of at most two numbers of replicas, which are 65536 at most.
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

// of is that part of a number of replicas, rounded up; never less than 0.
func (p part) of(replicas int) int {
	return int(max(0, (p.n*int64(replicas)+p.d-1)/p.d))
}
