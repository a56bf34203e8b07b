// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	"github.com/trellis-k8s/trellis/hack/sandbox"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/test/testutil/crash"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

// updates of a packed graph on a full cluster, in which the operator dies: the images of the decode component, each written when the update to the one
// before has begun to replace workers.
var updates = map[string][]string{
	"one":       {"example.com/vllm:2"},
	"two quick": {"example.com/vllm:2", "example.com/vllm:3"},
	"a return":  {"example.com/vllm:2", "example.com/vllm:1"},
}

var _ = Describe("An operator that dies in the middle of an update of workers", suite.Faults, func() {
	// It dies at a random write; TRELLIS_LIFE_SEED repeats one. With TRELLIS_CRASHES=all (make test-faults) it dies at every one.
	DescribeTable("has it end in the last generation, and half is served at every moment", func(ctx SpecContext, one crashedScene) {
		if one.all == nil {
			By("crash " + one.once.String())
			updateAndDie(ctx, one.name, one.once)
			return
		}
		total := counted(ctx, "update-"+one.name, func() int { return updateAndDie(ctx, one.name, crash.Point{}) })
		for _, c := range one.all.of(total) {
			By("crash " + c.String())
			updateAndDie(ctx, one.name, c)
		}
	}, crashedUpdates(seeded()))
})

func crashedUpdates(r *rand.Rand) (out []TableEntry) {
	for _, name := range slices.Sorted(maps.Keys(updates)) {
		if !crash.All {
			once := crash.Point{At: 1 + r.IntN(60), Applied: r.IntN(2) == 0}
			out = append(out, Entry(name, SpecTimeout(suite.Timeout()), crashedScene{name: name, once: once}))
			continue
		}
		for number := range lotsOfAScene {
			all := &lot{every: 1, number: number, among: lotsOfAScene}
			out = append(out, Entry(fmt.Sprintf("%s, lot %d of %d", name, number+1, lotsOfAScene), SpecTimeout(crashesOfALot*suite.Timeout()), crashedScene{name: name, all: all}))
		}
	}
	return out
}

// updateAndDie returns the writes until the end or the crash. A crash at 0 does not happen.
func updateAndDie(ctx context.Context, name string, c crash.Point) int {
	GinkgoHelper()
	world := "update-" + strings.ReplaceAll(name, " ", "-") + "-" + c.String()
	w := bare[sandbox.Gates].open(ctx).newWorld(ctx, world, racks(2, 8, "a/r0", "a/r1", "a/r2", "a/r3")...)
	releases := &crash.Ledger{}
	saboteur := func() *crash.Saboteur {
		return &crash.Saboteur{Name: w.name, Ledger: releases, Provider: string(sandbox.Gates)}
	}
	s := saboteur()
	ended, stop := operate(w.config(), w.name, s)
	defer func() { stop() }()
	restart := func() {
		select {
		case <-ended:
			ended, stop = operate(w.config(), w.name, saboteur())
		default:
		}
	}
	dgd := w.pairIn("zone", "1", "0")
	dgd.Spec.Services["Decode"].ExtraPodSpec.MainContainer.Image = "example.com/vllm:1"
	w.create(dgd)
	w.ready("g")
	watcher := w.followGenerations(0.5)
	s.Arm(c)
	images := updates[name]
	for i, image := range images {
		w.setImage("g", "Decode", image)
		w.until("the update to "+image+" has begun", func() error {
			restart()
			if i == len(images)-1 {
				return nil
			}
			return w.someRun(image)
		})
	}
	last := images[len(images)-1]
	w.until("all workers are of the last generation, and g is Ready", func() error {
		restart()
		if u := w.dgd("g").Status.RollingUpdate; u == nil || u.Phase != nvidiav1alpha1.RollingUpdateCompleted {
			return fmt.Errorf("after a crash at %q the update is %+v", s.Died(), u)
		}
		for _, pod := range w.all() {
			if image := pod.Spec.Containers[0].Image; pod.Labels[render.LabelComponent] == "Decode" && image != last {
				return fmt.Errorf("after a crash at %q pod %s has the image %s", s.Died(), pod.Name, image)
			}
		}
		if err := w.oneGeneration(); err != nil {
			return err
		}
		return w.isReady("g")
	})
	watcher.stop()
	Expect(releases.Repeated()).To(BeEmpty(), "pods that were released more than once")
	writes := s.Counted()
	w.tearDown() // a lot plays many worlds on one API server
	return writes
}

// someRun: there is a decode pod of an image.
func (w *world) someRun(image string) error {
	w.t.Helper()
	for _, pod := range w.all() {
		if pod.Labels[render.LabelComponent] == "Decode" && pod.Spec.Containers[0].Image == image {
			return nil
		}
	}
	return fmt.Errorf("no decode pod has the image %s", image)
}
