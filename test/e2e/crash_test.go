// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/hack/sandbox"
	"github.com/trellis-k8s/trellis/hack/sandbox/filelock"
	"github.com/trellis-k8s/trellis/internal/operator"
	"github.com/trellis-k8s/trellis/internal/scheduler"
	"github.com/trellis-k8s/trellis/test/testutil/crash"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

func fromVersion(version string) *metav1.ListOptions {
	return &metav1.ListOptions{ResourceVersion: version}
}

// operate runs an operator in this process, for one namespace, until the returned function has ended it. change edits its options.
func operate(restConfig *rest.Config, namespace string, s *crash.Saboteur, change ...func(*operator.Options)) (ended <-chan struct{}, stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	s.Kill = cancel
	done := make(chan struct{})
	go func() {
		defer GinkgoRecover()
		defer close(done)
		options := operator.Options{
			MetricsAddress: "0", ProbeAddress: "0", Namespace: namespace, WatchNamespaces: []string{namespace}, QPS: 500, Burst: 1000, Provider: s.Provider,
			RequeueAfter: 5 * time.Second, HoldFor: scheduler.DefaultHoldFor, NewClient: s.NewClient, GateAllPods: gateAll == "true",
		}
		for _, edit := range change {
			edit(&options)
		}
		err := operator.Run(ctx, restConfig, options)
		if ctx.Err() == nil {
			Expect(err).NotTo(HaveOccurred(), "the operator ended")
		}
	}()
	return done, func() { cancel(); <-done }
}

var _ = Describe("An operator that dies", suite.Faults, func() {
	// A crash at any write, with the write lost or only its answer, and a new start end as if nothing had happened. It is tried at a part of the
	// writes, spread over all of them; with TRELLIS_CRASHES=all (make test-faults) at every one. How many there are an undisturbed run counts.
	DescribeTable("at any write of a scenario changes nothing about how it ends", func(ctx SpecContext, points lot) {
		e := bare[sandbox.Gates].open(ctx)
		total := counted(ctx, "crash", func() int {
			whole := &crash.Saboteur{Name: "crash-never"}
			live(ctx, e, whole)
			return whole.Counted()
		})
		Expect(total).To(BeNumerically(">=", 10), "the writes of the undisturbed run")
		for _, c := range points.of(total) {
			By("crash " + c.String())
			live(ctx, e, &crash.Saboteur{Name: "crash-" + c.String(), Point: c})
		}
	}, lots(seeded()))
})

// lot is a part of the crashes of a scenario, of which each spec tries one: the processes of ginkgo share them.
type lot struct {
	// first and every say which of all crashes are tried.
	first, every int
	// number of this lot, among of lots, which are dealt the crashes in turn.
	number, among int
}

// lots of the crashes of one scenario, for a table: few of a sample, and more of all.
func lots(r *rand.Rand) []TableEntry {
	one := lot{first: r.IntN(sampledCrashes), every: sampledCrashes, among: 2}
	if crash.All {
		one = lot{every: 1, among: 16}
	}
	var out []TableEntry
	for one.number = range one.among {
		out = append(out, Entry(fmt.Sprintf("lot %d of %d", one.number+1, one.among), SpecTimeout(crashesOfALot*suite.Timeout()), one))
	}
	return out
}

// of are the crashes of this lot where so many writes are made.
func (l lot) of(writes int) (out []crash.Point) {
	for i, point := range crash.Points(writes, l.first, l.every) {
		if i%l.among == l.number {
			out = append(out, point)
		}
	}
	return out
}

// counted is how many writes an undisturbed run makes. The first spec that asks has it run, in whichever process, and the others read its number.
func counted(ctx context.Context, name string, run func() int) int {
	GinkgoHelper()
	file := filepath.Join(common.Scratch, "writes-of-"+name)
	unlock, err := filelock.Lock(ctx, file+".lock", nil)
	Expect(err).NotTo(HaveOccurred())
	defer unlock()
	if text, err := os.ReadFile(file); err == nil {
		total, err := strconv.Atoi(string(text))
		Expect(err).NotTo(HaveOccurred())
		return total
	}
	total := run()
	AddReportEntry("writes of "+name, total)
	Expect(os.WriteFile(file, []byte(strconv.Itoa(total)), 0o600)).To(Succeed())
	return total
}

// sampledCrashes is the part of all crashes that is tried otherwise: one of so many.
const sampledCrashes = 10

// lifeSeed is TRELLIS_LIFE_SEED, or the seed of Ginkgo, which is printed and the same in all processes.
func lifeSeed() int64 { return fromEnv("TRELLIS_LIFE_SEED", GinkgoRandomSeed()) }

// seeded returns random numbers by that seed.
func seeded() *rand.Rand { return rand.New(rand.NewPCG(uint64(lifeSeed()), 0)) }

// end is how the scenario ends, however often the operator died.
const end = `condition Placed=True/AllReplicasPlaced
condition ProviderReady=True/ProviderAvailable
condition Ready=True/all_resources_are_ready
condition TopologyLevelsAvailable=True/AllTopologyLevelsAvailable
group g-frontend 1/1/1/1 placements 1
group g-worker 2/2/2/2 placements 2
pod g-frontend-0 in [b]
pod g-worker-0-0 in [b]
pod g-worker-0-1 in [b]
pod g-worker-1-0 in [b]
pod g-worker-1-1 in [b]
service g-frontend
service g-worker
service g-worker-pods
worker 0 in 1 rack
worker 1 in 1 rack`

// live plays the scenario: a graph is created, becomes ready, loses a pod and becomes ready again.
func live(ctx context.Context, e environment, s *crash.Saboteur) {
	GinkgoHelper()
	w := e.newWorld(ctx, s.Name, racks(2, 8, "a/r0", "b/r0", "b/r1")...)
	s.Ledger = &crash.Ledger{}
	ended, stop := operate(w.config(), w.name, s)
	defer func() { stop() }()
	revive := func() {
		select {
		case <-ended:
			ended, stop = operate(w.config(), w.name, &crash.Saboteur{Name: w.name, Ledger: s.Ledger})
		default:
		}
	}
	w.create(w.graphOf("g", "zone", services{"Worker": worker(2, 2, 8, "rack"), "Frontend": frontend(1)}))
	w.endsWell(s, revive)
	before := w.uids()
	w.deletePod("g-worker-0-1")
	w.until("the replica is recreated", func() error {
		revive()
		kept := 0
		for uid := range w.uids() {
			if before[uid] {
				kept++
			}
		}
		if kept != 3 {
			return fmt.Errorf("%d old pods, want 3", kept)
		}
		return nil
	})
	w.endsWell(s, revive)
	Expect(s.Ledger.Repeated()).To(BeEmpty(), "pods that were released more than once")
}

func (w *world) endsWell(s *crash.Saboteur, each func()) {
	w.t.Helper()
	w.until("everything is as if nothing had happened", func() error {
		each()
		if got := w.summary(); got != end {
			return fmt.Errorf("after a crash at %q:\n%s\nwant:\n%s", s.Died(), got, end)
		}
		return nil
	})
}

// summary is the state of the world without what differs between any two runs (UIDs, times, which of two equal racks).
func (w *world) summary() string {
	var lines []string
	for _, pod := range w.all() {
		lines = append(lines, fmt.Sprintf("pod %s in %s", pod.Name, w.domains("zone", pod)))
	}
	for ordinal, pods := range w.replicasOf("Worker") {
		lines = append(lines, fmt.Sprintf("worker %d in %d rack", ordinal, len(w.domains("rack", pods...))))
	}
	groups, places := list(w, &trellisv1alpha1.ScalingGroupList{}), w.dgd("g").Status.Services
	for i := range groups.Items {
		s := &groups.Items[i].Status
		lines = append(lines, fmt.Sprintf("group %s %d/%d/%d/%d placements %d", groups.Items[i].Name, s.Replicas, s.ScheduledReplicas, s.ReadyReplicas, s.UpdatedReplicas, len(places[groups.Items[i].Spec.Component].Placements)))
	}
	kube := list(w, &corev1.ServiceList{})
	for i := range kube.Items {
		lines = append(lines, "service "+kube.Items[i].Name)
	}
	for _, cond := range w.dgd("g").Status.Conditions {
		lines = append(lines, fmt.Sprintf("condition %s=%s/%s", cond.Type, cond.Status, cond.Reason))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}
