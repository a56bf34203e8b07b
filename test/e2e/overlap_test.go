// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	"github.com/trellis-k8s/trellis/hack/sandbox"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/test/testutil/crash"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

var _ = Describe("Two operators that overlap", suite.Faults, func() {
	// The second operator begins to lead at a random write of the first one, which ends at a random later write of the second one. The watches of
	// both hold events back, repeat, reorder and omit them. No replica, component or graph is in two domains, no host is over its capacity, and
	// every graph becomes Ready without a restart. 200 plays with TRELLIS_CRASHES=all (make test-faults).
	DescribeTable("make every graph ready", func(ctx SpecContext, of plays) {
		overlapped := 0
		for number := of.first; number < of.all; number += of.specs {
			if overlap(ctx, number) {
				overlapped++
			}
		}
		AddReportEntry("plays in which both operators wrote", overlapped)
		Expect(overlapped).To(BeNumerically(">", 0), "plays in which both operators wrote")
	}, overlaps())
})

// plays are the plays of one spec: first is the number of its first one, all the number of plays of all specs.
type plays struct{ first, all, specs int }

// overlaps deals the plays to specs.
func overlaps() []TableEntry {
	of := plays{all: 4, specs: 2}
	if crash.All {
		of = plays{all: 200, specs: 16}
	}
	var out []TableEntry
	for of.first = range of.specs {
		out = append(out, Entry(fmt.Sprintf("lot %d of %d", of.first+1, of.specs), SpecTimeout(crashesOfALot*suite.Timeout()), PollProgressAfter(0), of))
	}
	return out
}

// latestOverlap is the last write of an operator at which the other one begins or ends. A play has more.
const latestOverlap = 60

// overlap lets two graphs live while one operator succeeds another, and reports whether both wrote.
func overlap(ctx SpecContext, play int) bool {
	GinkgoHelper()
	seed := uint64(lifeSeed())
	random := rand.New(rand.NewPCG(seed, uint64(play)))
	name := fmt.Sprintf("overlap-%d", play)
	begins, ends := 1+random.IntN(latestOverlap), 1+random.IntN(latestOverlap)
	By(fmt.Sprintf("%s: the second operator begins at write %d of the first, which ends at write %d of the second", name, begins, ends))
	w := bare[sandbox.Gates].open(ctx).newWorld(ctx, name, lifeHosts...)
	w.operators = 2
	config := w.config()
	first, second := &crash.Saboteur{Name: name}, &crash.Saboteur{Name: name}
	start := func(s *crash.Saboteur, stream uint64) func() {
		disturbed := &unreliable{rand: rand.New(rand.NewPCG(seed+uint64(play), stream)), omits: true, longest: time.Second}
		_, stop := operate(disturbed.disturb(config), name, s)
		return stop
	}
	stopFirst := start(first, 1)
	over := make(chan struct{})
	succession := make(chan struct{})
	go func() {
		defer GinkgoRecover()
		defer close(succession)
		defer func() { stopFirst() }()
		if !reaches(first, begins, over) {
			return
		}
		stopSecond := start(second, 2)
		defer stopSecond()
		if reaches(second, ends, over) {
			stopFirst()
		}
		<-over
	}()
	defer func() {
		close(over)
		<-succession
		w.tearDown() // a lot plays many worlds on one API server
	}()

	watcher := w.newObserver()
	watcher.oneZone, watcher.hosts = true, map[string]host{}
	for _, h := range lifeHosts {
		watcher.hosts[w.node(h.name)] = h
	}
	watcher.start(w.c)
	users := []*user{{world: w, rand: random, graph: "g"}, {world: w, rand: random, graph: "h"}}
	for _, u := range users {
		w.create(w.graphOf(u.graph, "zone", services{"Worker": worker(2, 2, 8, "rack"), "Frontend": frontend(1)}))
	}
	const changes = 2
	for change := range changes + 1 {
		for _, u := range users {
			w.ready(u.graph)
			if change < changes {
				By(u.graph + ": " + u.change())
			}
		}
	}
	watcher.stop()
	return first.Counted() > 0 && second.Counted() > 0
}

// reaches waits until an operator has made a number of writes, and reports false if the play is over before.
func reaches(s *crash.Saboteur, writes int, over <-chan struct{}) bool {
	for s.Counted() < writes {
		select {
		case <-over:
			return false
		case <-time.After(time.Millisecond):
		}
	}
	return true
}

// change edits the graph, or deletes one of its pods, so that it still has a place.
func (u *user) change() string {
	switch u.rand.IntN(5) {
	case 0:
		n := 1 + u.rand.IntN(2)
		u.scale(u.graph, "Worker", int32(n))
		return fmt.Sprintf("Worker to %d", n)
	case 1:
		return "image " + u.editImage()
	case 2:
		return "restart " + u.restart(nvidiav1alpha1.RestartStrategyParallel)
	case 3:
		return "lost " + u.loses("frontend")
	}
	return "lost " + u.loses("worker")
}

// loses deletes a pod of a component, and returns its name. Replica 0 may be gone: a scale-in chooses among the replicas.
func (u *user) loses(component string) string {
	var names []string
	for _, pod := range u.all() {
		if pod.Labels[render.LabelScalingGroup] == u.graph+"-"+component {
			names = append(names, pod.Name)
		}
	}
	slices.Sort(names)
	name := names[u.rand.IntN(len(names))]
	u.deletePod(name)
	return name
}
