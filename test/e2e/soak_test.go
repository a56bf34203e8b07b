// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/trellis-k8s/trellis/hack/sandbox"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

var _ = Describe("Many graphs under faults", labelSoak, func() {
	// Many graphs live at random while processes are killed and hosts break, and what is, is compared at every moment with what must be: no gang split, no
	// graph in two domains, no host over capacity, nothing moved, nothing held by what is gone, conditions true to facts; and in the end, no writes.
	//
	// TRELLIS_SOAK is how long it takes (make soak DURATION=40m), TRELLIS_SOAK_GRAPHS and TRELLIS_SOAK_NODES how much there is, and
	// TRELLIS_SOAK_SEED repeats the order of what is done.
	It("break no invariant, and no one writes in the end", func(ctx SpecContext) {
		s := newSoak(ctx)
		AddReportEntry(fmt.Sprintf("TRELLIS_SOAK=%s TRELLIS_SOAK_GRAPHS=%d TRELLIS_SOAK_NODES=%d TRELLIS_SOAK_SEED=%d",
			s.duration, len(s.users), len(s.chaos.hosts), s.seed))
		s.begin()
		DeferCleanup(s.finish)
		for left := s.duration; left > s.duration/10 && len(s.audit.violations()) == 0; left = s.duration - time.Since(s.started) {
			s.faults(min(part, left))
			s.rest()
		}
		s.quiet()
	}, SpecTimeout(2*soakDuration()+2*suite.Timeout()), PollProgressAfter(0))
})

// soakDuration is how long faults are on.
func soakDuration() time.Duration {
	duration, err := time.ParseDuration(cmp.Or(os.Getenv("TRELLIS_SOAK"), "15s"))
	if err != nil {
		panic(fmt.Sprintf("TRELLIS_SOAK: %v", err))
	}
	return duration
}

// part is how long faults are on until everything is repaired and compared.
const part = 8 * time.Minute

// soak is one run.
type soak struct {
	*world
	duration time.Duration
	seed     int64
	users    []*soakUser
	chaos    *chaos
	audit    *auditor
	meter    *meter

	started time.Time
	stop    context.CancelFunc
	ended   sync.WaitGroup
	mu      sync.Mutex // guards meter
	// rands of users, processes and hosts.
	rands [3]*rand.Rand
}

func newSoak(ctx context.Context) *soak {
	GinkgoHelper()
	s := &soak{duration: soakDuration(), seed: fromEnv("TRELLIS_SOAK_SEED", 1)}
	e := newEnvironment(of(ctx), "soak", func(o *sandbox.Options) {
		o.Manager = sandbox.ManagerOptions{Args: []string{"--requeue-after=10s", "--hold-for=20s", "--metrics-secure=false"}}
	})
	raw := e.c
	e.c = persistent(raw)
	s.world = e.emptyWorld(ctx, "soak")
	s.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.name}})
	hosts := soakHosts(int(fromEnv("TRELLIS_SOAK_NODES", 40)))
	s.addHosts(hosts...)
	s.create(s.topology())
	s.audit = s.world.audit(raw, hosts)
	s.chaos = &chaos{w: s.world, audit: s.audit, hosts: hosts, impaired: map[string]impairment{}, most: max(2, len(hosts)/50)}
	s.meter = &meter{address: e.cluster.ManagerMetrics(sandbox.DefaultManager)}
	for i := range s.rands {
		s.rands[i] = rand.New(rand.NewPCG(uint64(s.seed), uint64(i)))
	}
	for i := range fromEnv("TRELLIS_SOAK_GRAPHS", 8) {
		s.users = append(s.users, &soakUser{user: user{world: s.world, rand: s.rands[0], graph: fmt.Sprintf("g%d", i)}})
	}
	return s
}

// soakHosts are n hosts of 8 GPUs: racks of 10 hosts, or 4 if there are few, and zones of up to 10 racks.
func soakHosts(n int) []host {
	size := 10
	if n < 400 {
		size = 4
	}
	var paths []string
	inRacks := (n + size - 1) / size
	zones := max(2, inRacks/10)
	for i := range inRacks {
		paths = append(paths, fmt.Sprintf("z%d/r%d", i%zones, i/zones))
	}
	return racks(size, 8, paths...)[:n]
}

// begin starts to look and to report.
func (s *soak) begin() {
	s.started = time.Now()
	ctx, cancel := context.WithCancel(context.Background())
	s.stop = cancel
	every(ctx, &s.ended, 500*time.Millisecond, func() { s.audit.look(time.Now()) })
	every(ctx, &s.ended, 2*time.Second, func() { _ = s.measure(ctx) })
	var last float64
	interval := min(time.Minute, s.duration/3)
	every(ctx, &s.ended, interval, func() {
		s.mu.Lock()
		writes := s.meter.writes - last
		last = s.meter.writes
		now := s.meter.now
		s.mu.Unlock()
		f := s.audit.facts()
		pods, whole := 0, 0
		for _, g := range f.graphs {
			pods += len(g.active)
			if g.whole() {
				whole++
			}
		}
		s.t.Logf("%6s: %3d graphs, %3d as wanted, %4d pods; operator: %s, %5.1f writes/s; %d invariants broken",
			time.Since(s.started).Round(time.Second), len(f.graphs), whole, pods, now, writes/interval.Seconds(), len(s.audit.violations()))
	})
}

// every does something at intervals, in the background, until ctx ends.
func every(ctx context.Context, ended *sync.WaitGroup, interval time.Duration, do func()) {
	ended.Go(func() {
		for pause(ctx, interval); ctx.Err() == nil; pause(ctx, interval) {
			do()
		}
	})
}

// measure looks at the operator and returns how often it has written.
func (s *soak) measure(ctx context.Context) float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.meter.look(ctx)
	return s.meter.writes
}

// faults lets users, hardware and processes act for a while, and mends what they broke.
func (s *soak) faults(d time.Duration) {
	ctx, cancel := context.WithTimeout(s.t.Context(), d)
	defer cancel()
	pace := func(share int, most time.Duration) time.Duration {
		return min(most, s.duration/time.Duration(share))
	}
	var processes, hardware sync.WaitGroup
	processes.Go(func() {
		defer GinkgoRecover()
		r := s.rands[1]
		for ctx.Err() == nil {
			for _, name := range s.chaos.processes(r) {
				s.note(s.chaos.breakProcess(ctx, r, name, pace(40, 6*time.Second)))
				if pause(ctx, pace(30, 40*time.Second)); ctx.Err() != nil {
					return
				}
			}
		}
	})
	hardware.Go(func() {
		defer GinkgoRecover()
		r := s.rands[2]
		for pause(ctx, pace(60, 4*time.Second)); ctx.Err() == nil; pause(ctx, pace(60, 4*time.Second)) {
			s.note(s.chaos.breakHardware(ctx, r))
		}
	})
	for ctx.Err() == nil {
		if arrives := slices.IndexFunc(s.users[:len(s.users)*2/3], func(u *soakUser) bool { return !u.arrived }); arrives >= 0 {
			s.users[arrives].act(s) // the first ones come at once
			continue
		}
		s.users[s.rands[0].IntN(len(s.users))].act(s)
		pause(ctx, pace(120, time.Second))
	}
	processes.Wait()
	restarting, end := context.WithCancel(s.t.Context())
	processes.Go(func() { // the control plane repairs hosts
		defer GinkgoRecover()
		for ; restarting.Err() == nil; pause(restarting, time.Second) {
			s.note(s.chaos.restartEnded(s.t.Context()))
		}
	})
	hardware.Wait()
	s.note(s.chaos.mendAll(s.t.Context()))
	end()
	processes.Wait()
}

func (s *soak) note(err error) {
	if err != nil {
		s.t.Error(err)
	}
}

// rest waits until every graph is as wanted, or waits for a reason, and nothing contradicts the facts.
func (s *soak) rest() {
	started := time.Now()
	ctx, cancel := context.WithTimeout(s.t.Context(), suite.Patience())
	defer cancel()
	var unsettled []string
	for settled := 0; settled < 4; pause(ctx, 500*time.Millisecond) {
		if err := s.chaos.restartEnded(s.t.Context()); err != nil {
			s.t.Error(err)
			return
		}
		if unsettled = s.unsettled(); len(unsettled) == 0 {
			settled++
			continue
		}
		settled = 0
		if ctx.Err() != nil {
			s.t.Errorf("%s after the last fault:\n%s", suite.Patience(), strings.Join(unsettled[:min(len(unsettled), 40)], "\n"))
			return
		}
	}
	s.audit.episodes.took("everything mended", time.Since(started))
	f, waiting := s.audit.facts(), 0
	for _, g := range f.graphs {
		if !g.whole() {
			waiting++
		}
		s.recorded(g.dgd.Name)
	}
	s.t.Logf("%6s: all faults mended; %d graphs are as wanted and %d wait for capacity after %s",
		time.Since(s.started).Round(time.Second), len(f.graphs)-waiting, waiting, time.Since(started).Round(100*time.Millisecond))
}

// unsettled describes what is not as it has to be when nothing is broken.
func (s *soak) unsettled() []string {
	found := s.audit.look(time.Now())
	for _, g := range s.audit.facts().graphs {
		if !g.whole() && !g.waits() {
			found = append(found, fmt.Sprintf("graph %s has %d of %d pods, %d ready, %d gated, %d that terminate: %v",
				g.dgd.Name, len(g.active), g.wanted(), g.ready, g.gated, g.leaving, g.says()))
		}
	}
	return found
}

// quiet waits until no one writes any more, and checks that it stays so.
func (s *soak) quiet() {
	still := max(10*time.Second, min(time.Minute, s.duration/10))
	ctx, cancel := context.WithTimeout(s.t.Context(), suite.Patience())
	defer cancel()
	before, last := s.audit.written()
	writes := s.measure(ctx)
	for since := time.Now(); time.Since(since) < still; pause(ctx, 500*time.Millisecond) {
		if n, what := s.audit.written(); n != before {
			before, last, since = n, what, time.Now()
		}
		// Events are not among what the audit follows.
		if n := s.measure(ctx); n != writes {
			writes, last, since = n, "a write of the operator", time.Now()
		}
		if ctx.Err() != nil {
			s.t.Errorf("%s after everything was as wanted something still changes; the last was %s", suite.Patience(), last)
			return
		}
	}
	pause(ctx, still)
	writes = s.measure(ctx) - writes
	if n, what := s.audit.written(); n != before || writes != 0 {
		s.t.Errorf("though nothing happens, in %s there were %d changes, the last of %s, and %v writes by the operator", still, n-before, what, writes)
	}
}

// finish reports, and fails the spec if an invariant was broken.
func (s *soak) finish() {
	s.stop()
	s.ended.Wait()
	took, broken := time.Since(s.started), s.audit.violations()
	AddReportEntry("the soak", fmt.Sprintf("seed %d, %d nodes, %d graphs, %s\n"+
		"%sevidence: %d invariants broken in %s, with %d graphs on %d nodes; the operator used at most %s, and wrote %.0f times, %.1f a second",
		s.seed, len(s.chaos.hosts), len(s.users), took.Round(time.Second), s.audit.episodes.table(),
		len(broken), took.Round(time.Second), len(s.users), len(s.chaos.hosts), s.meter.most, s.meter.writes, s.meter.writes/took.Seconds()))
	if s.t.Failed() || len(broken) > 0 {
		file := filepath.Join(os.TempDir(), "trellis-e2e-soak-journal.log")
		AddReportEntry("what was done, and when: " + file)
		Expect(os.WriteFile(file, []byte(s.audit.episodes.journal()), 0o600)).To(Succeed())
	}
	Expect(broken[:min(len(broken), 20)]).To(BeEmpty(), "broken invariants")
}
