// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"math/rand/v2"

	. "github.com/onsi/ginkgo/v2"
	"k8s.io/client-go/rest"

	"github.com/trellis-k8s/trellis/hack/sandbox"
	"github.com/trellis-k8s/trellis/test/testutil/crash"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

// startOperator runs an operator in this process for the world's namespace, until the spec ends.
func (w *world) startOperator(config *rest.Config) {
	w.operators++
	_, stop := operate(config, w.name, &crash.Saboteur{Name: w.name, Ledger: &crash.Ledger{}})
	DeferCleanup(stop)
}

func (w *world) config() *rest.Config {
	w.t.Helper()
	config, err := w.cluster.RESTConfig()
	if err != nil {
		w.t.Fatal(err)
	}
	return config
}

// unreliably returns a config whose watches are unreliable, and leave events out if omits, by a seed that is logged.
func (w *world) unreliably(seed int64, omits bool) *rest.Config {
	u := &unreliable{rand: rand.New(rand.NewPCG(uint64(seed), 1)), omits: omits}
	DeferCleanup(func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		AddReportEntry("disturbed events", fmt.Sprintf("%d held back, %d doubled, %d out of order, %d left out; %d watches cut",
			u.held, u.doubled, u.swapped, u.omitted, u.cut))
	})
	return u.disturb(w.config())
}

var _ = Describe("An operator whose watches are unreliable", suite.Faults, func() {
	// Watches are held back for seconds, pass events on twice and out of order, leave some out, and end at any time: what comes of it is the same.
	It("leads a random life to the same end", func(ctx SpecContext) {
		steps, seed := lifeOf(fewSteps)
		w := bare[sandbox.Gates].open(ctx).newWorld(ctx, "unreliable", lifeHosts...)
		w.startOperator(w.unreliably(seed, true))
		w.liveRandomly(steps, seed, false)
	}, SpecTimeout(lifeTimeout(fewSteps)), PollProgressAfter(0))
})

var _ = Describe("Two operators that both lead", suite.Faults, func() {
	// Two operators both take themselves for the leader. One of them sees everything late, and misses some of it until it lists again. Each places gangs
	// as if it were alone. No gang is split and no host is over its capacity, and the end is that of one. A leader that is late and misses nothing is tried
	// too with TRELLIS_CRASHES=all (make test-faults).
	DescribeTable("split no gang and overfill no host", func(ctx SpecContext, omits bool) {
		steps, seed := lifeOf(fewSteps)
		name := map[bool]string{true: "leaders-missed", false: "leaders-late"}[omits]
		w := bare[sandbox.Gates].open(ctx).newWorld(ctx, name, lifeHosts...)
		w.startOperator(w.config())
		w.startOperator(w.unreliably(seed, omits))
		w.liveRandomly(steps, seed, false)
		w.remove(w.dgd("g"))
		w.until("its capacity is free", func() error {
			if n := len(w.all()); n > 0 {
				return fmt.Errorf("%d pods are left", n)
			}
			return nil
		})
		w.crowd(int(steps))
	}, leadersThatAreLate())
})

func leadersThatAreLate() []TableEntry {
	out := []TableEntry{Entry("one of which is late and misses events", SpecTimeout(lifeTimeout(fewSteps)), PollProgressAfter(0), true)}
	if crash.All {
		out = append(out, Entry("one of which is late", SpecTimeout(lifeTimeout(fewSteps)), PollProgressAfter(0), false))
	}
	return out
}

// crowd has graphs that fill the cluster come and lose pods all at once.
func (w *world) crowd(rounds int) {
	w.t.Helper()
	watcher := w.newObserver()
	watcher.oneZone, watcher.hosts = true, map[string]host{}
	for _, h := range lifeHosts {
		watcher.hosts[w.node(h.name)] = h
	}
	watcher.start(w.c)
	names := []string{"c0", "c1", "c2", "c3", "c4", "c5"}
	for _, name := range names {
		w.create(w.graphOf(name, "zone", services{"Worker": worker(1, 2, 8, "rack"), "Frontend": frontend(1)}))
	}
	for i := range rounds {
		for _, name := range names {
			w.ready(name)
		}
		for j, name := range names {
			if (i+j)%2 == 0 {
				w.deletePod(fmt.Sprintf("%s-worker-0-%d", name, i%2))
			}
		}
	}
	for _, name := range names {
		w.ready(name)
	}
	watcher.stop()
}
