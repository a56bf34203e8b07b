// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/operator"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/scheduler"
	"github.com/trellis-k8s/trellis/test/testutil/crash"
	"github.com/trellis-k8s/trellis/test/testutil/graphs"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

// scene is something that happens to a deployment with two replicas of Worker and a Frontend, which run, and how it ends. The operator dies at one of
// its writes meanwhile.
type scene struct {
	// writes are about how many the operator makes; a random one of them is died at.
	writes int
	// change is nil for the scene in which the deployment is made.
	change func(w *world)
	// workers at the end, and the image they run. renewed: none of their pods was there before.
	workers int
	image   string
	renewed bool
}

const (
	firstImage  = "example.com/vllm:1"
	secondImage = "example.com/vllm:2"
)

var scenes = map[string]scene{
	"made":       {writes: 20, workers: 2, image: firstImage},
	"updated":    {writes: 20, workers: 2, image: secondImage, renewed: true, change: func(w *world) { w.image("Worker", secondImage) }},
	"scaled-in":  {writes: 8, workers: 1, image: firstImage, change: func(w *world) { w.scale("Worker", 1) }},
	"scaled-out": {writes: 10, workers: 3, image: firstImage, change: func(w *world) { w.scale("Worker", 3) }},
	"restarted":  {writes: 25, workers: 2, image: firstImage, renewed: true, change: func(w *world) { w.patch(`{"spec":{"restart":{"id":"one"}}}`) }},
	"bereft":     {writes: 10, workers: 2, image: firstImage, change: func(w *world) { w.free(&w.replica("Worker", 1)[1]) }},
}

// undertakings are who gets pods made and onto nodes in the scenes, in addition to Trellis.
var undertakings = map[string]struct {
	title, provider string
	sets            bool
}{
	"kai":      {title: "KAI", provider: specs.KAI.Name},
	"sets":     {title: "LeaderWorkerSets", provider: specs.Gates.Name, sets: true},
	"kai-sets": {title: "KAI and LeaderWorkerSets", provider: specs.KAI.Name, sets: true},
}

var _ = Describe("An operator that dies at one of its writes", suite.Slow, func() {
	// A write is lost, or only its answer. Each scene is played under one of the three, with a crash at a random write; TRELLIS_LIFE_SEED repeats a run.
	// With TRELLIS_CRASHES=all each is played under all three, with a crash at every write.
	seed := GinkgoRandomSeed()
	if n, err := strconv.ParseInt(os.Getenv("TRELLIS_LIFE_SEED"), 10, 64); err == nil {
		seed = n
	}
	r := rand.New(rand.NewPCG(uint64(seed), 0))
	turn := r.IntN(len(undertakings))
	for _, name := range slices.Sorted(maps.Keys(scenes)) {
		turn++
		for i, under := range slices.Sorted(maps.Keys(undertakings)) {
			if !crash.All && i != turn%len(undertakings) {
				continue
			}
			sc := scenes[name]
			once := crash.Point{At: 1 + r.IntN(sc.writes), Applied: r.IntN(2) == 0}
			title := fmt.Sprintf("while a deployment is %s, is followed by one with which all ends well, with %s", name, undertakings[under].title)
			if !crash.All {
				It(title, SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
					AddReportEntry(fmt.Sprintf("TRELLIS_LIFE_SEED=%d", seed), ReportEntryVisibilityFailureOrVerbose)
					sc.play(ctx, under, name, once)
				})
				continue
			}
			It(title, suite.Faults, SpecTimeout(4*time.Duration(sc.writes)*suite.Timeout()), func(ctx SpecContext) {
				total := sc.play(ctx, under, name, crash.Point{})
				AddReportEntry(fmt.Sprintf("%d writes", total), ReportEntryVisibilityFailureOrVerbose)
				for _, c := range crash.Points(total, 0, 1) {
					By("dying at " + c.String())
					sc.play(ctx, under, name, c)
				}
			})
		}
	}
})

// play brings the deployment up, changes it with an operator that dies at a write, and starts another one then. It returns the writes until the end or
// the crash. A crash at 0 does not happen.
func (sc scene) play(ctx SpecContext, under, name string, c crash.Point) int {
	GinkgoHelper()
	ns := "crash-" + under + "-" + name + "-" + c.String()
	made(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}})
	releases := &crash.Ledger{}
	s := &crash.Saboteur{Name: ns, Ledger: releases}
	if sc.change == nil {
		s.Arm(c)
	}
	ended, stop := operateIn(ns, s)
	defer func() { stop() }()
	w := newWorldIn(ctx, ns, ns, racks(2, 8, "a/r0", "b/r0", "b/r1", "b/r2")...)
	if undertakings[under].sets {
		w.sets = &lwsWorld{ctx: ctx, ns: ns, selector: render.LabelGraph + "=" + w.name}
	}
	w.deploy(undertakings[under].provider, "zone", "", components{"Worker": worker(2, 2, 8, "rack"), "Frontend": frontend(1)})
	endsAs := func(sc scene, before map[types.UID]bool) {
		GinkgoHelper()
		w.until("it ends as if nothing had happened", func() error {
			select {
			case <-ended:
				ended, stop = operateIn(ns, &crash.Saboteur{Name: ns, Ledger: releases})
			default:
			}
			if err := sc.amiss(w, before); err != nil {
				return fmt.Errorf("after a crash at %q: %w", s.Died(), err)
			}
			return nil
		})
	}
	endsAs(scenes["made"], nil)
	if sc.change != nil {
		before := graphs.UIDs(w.of("Worker"))
		s.Arm(c)
		sc.change(w)
		endsAs(sc, before)
	}
	w.inSets()
	Expect(releases.Repeated()).To(BeEmpty(), "pods that were released more than once")
	w.tearDown(ctx)
	return s.Counted()
}

// operateIn runs an operator for one namespace until the returned function, or the saboteur, has ended it.
func operateIn(ns string, s *crash.Saboteur) (ended <-chan struct{}, stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	s.Kill = cancel
	done := make(chan struct{})
	go func() {
		defer GinkgoRecover()
		defer close(done)
		err := operator.Run(ctx, restConfig, operator.Options{
			MetricsAddress: "0", ProbeAddress: "0", Namespace: ns, WatchNamespaces: []string{ns}, QPS: 500, Burst: 1000, Provider: specs.Auto,
			RequeueAfter: requeueAfter, HoldFor: scheduler.DefaultHoldFor, ReserveDomainAfter: -1, LookEvery: lookEvery, NewClient: s.NewClient,
		})
		if ctx.Err() == nil {
			Expect(err).NotTo(HaveOccurred(), "the operator ended")
		}
	}()
	return done, func() { cancel(); <-done }
}

// amiss is what is not yet as the scene ends.
func (sc scene) amiss(w *world, before map[types.UID]bool) error {
	if dgd := w.dgd(); dgd.Status.ObservedGeneration != dgd.Generation || dgd.Status.State != nvidiav1alpha1.StateSuccessful ||
		!meta.IsStatusConditionTrue(dgd.Status.Conditions, nvidiav1alpha1.ConditionPlaced) {
		return fmt.Errorf("state %s, %+v", dgd.Status.State, dgd.Status.Conditions)
	}
	replicas, zones := map[int32][]corev1.Pod{}, map[string]bool{}
	for _, pod := range w.of("Worker") {
		ordinal, _, _ := render.ReplicaOf(&pod)
		replicas[ordinal] = append(replicas[ordinal], pod)
		zones[pod.Spec.NodeSelector[zoneKey]] = true
		switch {
		case pod.Status.Phase != corev1.PodRunning:
			return fmt.Errorf("%s is %s", pod.Name, pod.Status.Phase)
		case pod.Spec.Containers[0].Image != sc.image:
			return fmt.Errorf("%s runs %s", pod.Name, pod.Spec.Containers[0].Image)
		case sc.renewed && before[pod.UID]:
			return fmt.Errorf("%s is from before", pod.Name)
		}
	}
	for ordinal, pods := range replicas {
		if len(pods) != 2 || pods[0].Spec.NodeSelector[rackKey] != pods[1].Spec.NodeSelector[rackKey] || pods[0].Spec.NodeSelector[rackKey] == "" {
			return fmt.Errorf("replica %d has %d pods in %v", ordinal, len(pods), pods[0].Spec.NodeSelector)
		}
	}
	if len(replicas) != sc.workers || len(zones) != 1 || len(w.of("Frontend")) != 1 {
		return fmt.Errorf("%d replicas in %d zones and %d frontends", len(replicas), len(zones), len(w.of("Frontend")))
	}
	return w.listed(slices.Sorted(maps.Keys(replicas)))
}

// listed compares what was written for the peers with the replicas there are.
func (w *world) listed(ordinals []int32) error {
	if w.sets != nil {
		var want []string
		for _, ordinal := range ordinals {
			want = append(want, fmt.Sprintf("%s-worker-r%d", w.name, ordinal))
		}
		if got := w.sets.sets(); got != strings.Join(want, " ") {
			return fmt.Errorf("the sets are %s", got)
		}
	}
	if w.dgd().Annotations[render.AnnotationProvider] != specs.KAI.Name {
		return nil
	}
	want := "g needs 2 in one zone\n  g-frontend-all pods 1\n  g-worker-all needs 1"
	for _, ordinal := range ordinals {
		want += fmt.Sprintf("\n    g-worker-%d pods 2 in one rack", ordinal)
	}
	if got := w.podGroupNow(); got != want {
		return fmt.Errorf("the PodGroup is\n%s", got)
	}
	return nil
}
