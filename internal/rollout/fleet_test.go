// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/intstr"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
)

// fleet is all workers of a graph, each component a simulation of its own, in one domain. It plays the controller of the graph: it sees what the
// components have reported, which may be late, and writes their steps.
type fleet struct {
	names []string
	of    map[string]*simulation
	// pods of a replica, by component, and capacity of the domain, in pods.
	pods     map[string]int
	capacity int
	// reached says that the new generation serves its partition.
	reached bool
	// stated are the bounds that a component has by itself; shared those of the others.
	stated   map[string]Bounds
	shared   trellisv1alpha1.RolloutStrategy
	recreate map[string]bool
	// paused: no step replaces anything.
	paused bool
	// partition of the new generation; nil: all.
	partition *intstr.IntOrString
	reports   map[string]report
	// written counts the changes of a component's spec.
	written map[string]int
	log     strings.Builder
}

// report is what a component has counted, and of which spec.
type report struct {
	of     int
	counts Component
}

func shared(unavailable, surge string) trellisv1alpha1.RolloutStrategy {
	return trellisv1alpha1.RolloutStrategy{MaxUnavailable: intstr.Parse(unavailable), MaxSurge: intstr.Parse(surge)}
}

func newFleet(replicas map[string]int, strategy trellisv1alpha1.RolloutStrategy, capacity int) *fleet {
	f := &fleet{
		names: slices.Sorted(maps.Keys(replicas)), of: map[string]*simulation{}, pods: map[string]int{}, capacity: capacity, stated: map[string]Bounds{},
		shared: strategy, recreate: map[string]bool{}, reports: map[string]report{}, written: map[string]int{},
	}
	for name, n := range replicas {
		f.of[name], f.pods[name] = newSimulation(Group{Replicas: n, MaxUnavailable: 1}, n), 1
		f.report(name)
	}
	return f
}

// edit makes another generation of all components. The revision is in the spec, so what was counted of the former one is known to be late.
func (f *fleet) edit(revision int) {
	for _, name := range f.names {
		if f.of[name].revision != revision {
			f.of[name].revision = revision
			f.written[name]++
		}
		f.write(name, f.held(name))
	}
}

// held is the step of a component that has not counted: all its replicas may be old ones.
func (f *fleet) held(name string) Step {
	c := f.component(name)
	c.Old = len(f.of[name].view())
	step := Hold(c)
	step.Paused = f.paused
	return step
}

// scale a component. While it is not known what the last step has come to, nothing is replaced.
func (f *fleet) scale(name string, replicas int) {
	known := f.known()
	f.of[name].want.Replicas = replicas
	f.written[name]++
	for i, step := range f.steps() {
		if !known {
			step = f.held(f.names[i])
		}
		f.write(f.names[i], step)
	}
}

// steps of all components.
func (f *fleet) steps() []Step {
	steps, paused := InStep(f.components()), f.paused
	if f.partition != nil && !paused {
		steps, f.reached = UpTo(steps, f.components(), *f.partition)
		paused = f.reached
	}
	for i := range steps {
		if paused {
			steps[i] = Hold(f.component(f.names[i]))
			steps[i].Paused = true
		}
	}
	return steps
}

func (f *fleet) write(name string, step Step) {
	want := &f.of[name].want
	if want.Step != nil && cmp.Equal(*want.Step, step) {
		return
	}
	want.Step, want.MaxUnavailable, want.MaxSurge = &step, step.MaxUnavailable, step.MaxSurge
	f.written[name]++
}

// component is what a component has reported, with what is wanted of it.
func (f *fleet) component(name string) Component {
	c := f.reports[name].counts
	c.Replicas, c.Recreate, c.Bounds = f.of[name].want.Replicas, f.recreate[name], f.bounds()[name]
	return c
}

func (f *fleet) components() []Component {
	components := make([]Component, 0, len(f.names))
	for _, name := range f.names {
		components = append(components, f.component(name))
	}
	return components
}

func (f *fleet) bounds() map[string]Bounds {
	var replicas []int
	for _, name := range f.names {
		replicas = append(replicas, f.of[name].want.Replicas)
	}
	out := map[string]Bounds{}
	for i, b := range Shared(f.shared, replicas) {
		out[f.names[i]] = b
	}
	maps.Copy(out, f.stated)
	return out
}

// report counts a component's replicas.
func (f *fleet) report(name string) {
	c := Component{}
	earlier := map[string]int{}
	for _, r := range f.of[name].view() {
		switch {
		case r.Outdated && r.State < Broken:
			c.OldTerminating++
		case r.Outdated:
			c.Old++
			earlier[r.Generation] += count([]Replica{r}, isAvailable)
		default:
			c.NewAvailable += count([]Replica{r}, isAvailable)
		}
	}
	for _, generation := range slices.Sorted(maps.Keys(earlier)) {
		c.Earlier = append(c.Earlier, Earlier{generation, earlier[generation]})
	}
	f.reports[name] = report{f.written[name], c}
}

// drain has the nodes of placed replicas of a component leave, and their capacity with them.
func (f *fleet) drain(name string, ordinals ...int) {
	for _, ordinal := range ordinals {
		if r := f.of[name].replicas[ordinal]; r != nil && r.placed && r.state >= Starting && !r.leaves {
			r.leaves = true
			f.capacity -= f.pods[name]
		}
	}
}

// known reports whether all components have counted what they are to be.
func (f *fleet) known() bool {
	return !slices.ContainsFunc(f.names, func(name string) bool { return f.reports[name].of != f.written[name] })
}

// decide writes the next step of all components, once it is known what the last one has come to.
func (f *fleet) decide() bool {
	if !f.known() {
		return false
	}
	before := maps.Clone(f.written)
	for i, step := range f.steps() {
		f.write(f.names[i], step)
	}
	return !maps.Equal(before, f.written)
}

// control lets one component's controller act once.
func (f *fleet) control(name string) Plan {
	s := f.of[name]
	s.log.Reset()
	s.now = f.now() // components share a clock
	return s.controller()
}

func (f *fleet) now() int64 {
	var now int64
	for _, s := range f.of {
		now = max(now, s.now)
	}
	return now
}

// place gives one component's first waiting replica its place when the domain has capacity.
func (f *fleet) place(name string) bool {
	s, free := f.of[name], f.capacity
	for _, other := range f.names {
		free -= f.pods[other] * f.of[other].taken()
	}
	s.capacity = s.taken() + max(0, free)/f.pods[name]
	return s.placer()
}

// serves is how much of the graph all generations serve, each as much as its least complete component, in percent.
func (f *fleet) serves() int {
	generations := map[int]bool{}
	for _, s := range f.of {
		for _, r := range s.replicas {
			generations[r.revision] = true
		}
	}
	sum := part{0, 1}
	for generation := range generations {
		sum = sum.plus(f.servedBy(generation))
		if sum.d > 1<<16 {
			sum = part{sum.n * (1 << 16) / sum.d, 1 << 16}
		}
	}
	return int(100 * sum.n / sum.d)
}

func (f *fleet) servedBy(generation int) part {
	served := one
	for _, s := range f.of {
		if s.want.Replicas > 0 {
			served = served.min(part{int64(s.serving(generation)), int64(s.want.Replicas)})
		}
	}
	return served
}

func (s *simulation) serving(generation int) int {
	n := 0
	for _, r := range s.replicas {
		if r.revision == generation && r.state == Available {
			n++
		}
	}
	return n
}

// round lets every controller act once and reports whether anything moved.
func (f *fleet) round() bool {
	moved := !f.known()
	moved = f.decide() || moved
	for _, name := range f.names {
		plan := f.control(name)
		moved = len(plan.Remove)+len(plan.Make) > 0 || moved
		f.log.WriteString(indent(name, f.of[name].log.String()))
	}
	f.draw()
	for _, name := range f.names {
		s := f.of[name]
		for _, act := range []func() bool{s.terminator, func() bool { return f.place(name) }, s.kubelet} {
			for act() {
				moved = true
			}
		}
		before := f.reports[name]
		f.report(name)
		moved = moved || !reflect.DeepEqual(before, f.reports[name])
	}
	return moved
}

func indent(name, text string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		fmt.Fprintf(&out, "  %s:%s", name, line[1:])
	}
	return out.String()
}

func (f *fleet) settle() bool {
	for range 500 {
		if !f.round() {
			return true
		}
	}
	return false
}

// draw the replicas of each generation: how many serve, and behind a plus how many do not yet.
func (f *fleet) draw() {
	var parts []string
	for _, name := range f.names {
		var of []string
		s := f.of[name]
		for generation := range 10 {
			active := 0
			for _, r := range s.view() {
				if s.replicas[r.Ordinal].revision == generation && r.active() {
					active++
				}
			}
			if serving := s.serving(generation); active > serving {
				of = append(of, fmt.Sprintf("v%d %d+%d", generation, serving, active-serving))
			} else if active > 0 {
				of = append(of, fmt.Sprintf("v%d %d", generation, serving))
			}
		}
		parts = append(parts, fmt.Sprintf("%s %-14s", name, strings.Join(of, " ")))
	}
	fmt.Fprintf(&f.log, "%s serves %d %%\n", strings.Join(parts, "  "), f.serves())
}
