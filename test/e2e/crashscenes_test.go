// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/hack/sandbox"
	"github.com/trellis-k8s/trellis/internal/leaving"
	"github.com/trellis-k8s/trellis/internal/operator"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/rollout"
	"github.com/trellis-k8s/trellis/test/testutil/crash"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

// scene is something that happens to a graph g which runs, and how it ends. The operator dies at one of its writes meanwhile.
type scene struct {
	// writes are about how many the operator makes; a random one of them is died at. With TRELLIS_CRASHES=all they are counted, and died at
	// one after the other.
	writes int
	// racks are further racks.
	racks []string
	// first runs before the graph is created.
	first func(w *world)
	// options of the operator, which only the provider Gates has.
	options func(*operator.Options)
	// prepare is done before the operator may die.
	prepare func(w *world)
	change  func(w *world)
	// least is the minimum of serving replicas of Worker during the change, most the maximum of existing ones; 0: neither is checked.
	least, most int
	// missing describes what the end lacks. before are the pods from before the change.
	missing func(w *world, before map[types.UID]bool) error
}

var scenes = map[string]scene{
	"updated": {writes: 20, change: func(w *world) { w.setImage("g", "Worker", "example.com/vllm:2") }, missing: func(w *world, _ map[types.UID]bool) error {
		for _, pod := range w.of("Worker") {
			if image := pod.Spec.Containers[0].Image; image != "example.com/vllm:2" {
				return fmt.Errorf("%s runs %s", pod.Name, image)
			}
		}
		return w.endsAs(end)
	}},
	"moved":   {writes: 25, racks: []string{"b/r2"}, change: drainHost, least: 2, most: 3, missing: (*world).movedToSuccessor},
	"evicted": {writes: 25, racks: []string{"b/r2"}, change: requestEviction, least: 2, most: 3, missing: (*world).movedToSuccessor},
	"moved-in-place": {writes: 15, racks: []string{"b/r2"}, least: 1, most: 2, prepare: moveInPlace, change: drainHost, missing: func(w *world, before map[types.UID]bool) error {
		return errors.Join(w.movedOnce(before), w.endsAs(end))
	}},
	"moved-for-a-gang": {
		writes: 45, racks: []string{"a/r1"}, options: repackSoon, first: func(w *world) { w.fillRack(8) }, prepare: fillInPieces,
		change:  func(w *world) { w.create(w.graphOf("big", "zone", services{"Big": worker(1, 2, 8, "rack")})) },
		missing: (*world).freedOnce,
	},
	"scaled-in": {writes: 6, change: func(w *world) { w.scale("g", "Worker", 1) }, missing: func(w *world, before map[types.UID]bool) error {
		for uid := range w.uids() {
			if !before[uid] {
				return fmt.Errorf("a pod is new")
			}
		}
		for _, ordinal := range []int{0, 1} { // the youngest is gone: where pods were made in different seconds, that may be the first one
			if err := w.endsAs(without(ordinal)); err == nil {
				return nil
			}
		}
		return w.endsAs(without(1))
	}},
	"restarted": {writes: 25, change: func(w *world) { w.patch("g", `{"spec":{"restart":{"id":"one"}}}`) }, missing: func(w *world, before map[types.UID]bool) error {
		if r := w.dgd("g").Status.Restart; r == nil || r.Phase != nvidiav1alpha1.RestartCompleted {
			return fmt.Errorf("the restart is %+v", r)
		}
		if err := w.allNew(before, 5); err != nil {
			return err
		}
		return w.endsAs(end)
	}},
	"recreated": {writes: 25, change: func(w *world) {
		old := w.dgd("g")
		w.remove(old)
		(&user{world: w}).createAgain(old)
	}, missing: func(w *world, before map[types.UID]bool) error {
		if err := w.allNew(before, 5); err != nil {
			return err
		}
		return w.endsAs(end)
	}},
	"preempted": {writes: 20, change: func(w *world) {
		urgent := w.graphOf("urgent", "zone", services{"Urgent": worker(1, 2, 8, "rack")})
		urgent.Spec.PriorityClassName = w.priorityClass(1000)
		w.remove(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: w.node("a-r0-0")}}) // both racks that are left are taken
		w.create(urgent)
	}, missing: func(w *world, _ map[types.UID]bool) error {
		if n := len(released(podsOf(w, "urgent"))); n != 2 {
			return fmt.Errorf("%d pods of the urgent graph are released", n)
		}
		whole, waiting := 0, 0
		for _, pods := range w.replicasOf("Worker") {
			switch n := len(released(pods)); {
			case n == 2 && len(w.domains("rack", pods...)) == 1 && w.domains("rack", pods...)[0] != "<unbound>":
				whole++
			case n == 0 && len(pods) == 2:
				waiting++
			}
		}
		if whole != 1 || waiting != 1 {
			return fmt.Errorf("%d replicas run and %d wait", whole, waiting)
		}
		for _, pod := range podsOf(w, "urgent") {
			if pod.Spec.NodeName == "" {
				return fmt.Errorf("%s is not bound", pod.Name)
			}
		}
		return nil
	}},
}

// drainHost does what kubectl trellis drain does to a host with a pod of a worker and no other.
func drainHost(w *world) {
	of := map[string]string{}
	for _, pod := range w.of("Frontend") {
		of[pod.Spec.NodeName] = pod.Name
	}
	workers := slices.DeleteFunc(w.of("Worker"), func(pod corev1.Pod) bool { return of[pod.Spec.NodeName] != "" })
	w.leave(workers[0].Spec.NodeName)
}

// requestEviction does what the webhook does when it refuses an eviction: that of another manager, which does not die.
func requestEviction(w *world) {
	request := leaving.AnnotationEviction + "=" + leaving.Eviction{At: time.Now()}.String()
	w.mustKubectl("annotate", "pod", w.of("Worker")[0].Name, request)
}

// movedToSuccessor: one replica has moved to another ordinal, and no other pod is new.
func (w *world) movedToSuccessor(before map[types.UID]bool) error {
	if err := w.movedOnce(before); err != nil {
		return err
	}
	if err := w.endsAs(renamed("worker-0", "worker-2", "worker 0", "worker 2")); err == nil {
		return nil
	}
	return w.endsAs(renamed("worker-1", "worker-2", "worker 1", "worker 2"))
}

// moveInPlace has replicas of g move in place, and waits until their group knows it: a move that begins before makes a surplus replica first.
func moveInPlace(w *world) {
	w.patch("g", fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, rollout.AnnotationMoves, trellisv1alpha1.MovesInPlace))
	w.until("the group knows that replicas move in place", func() error {
		if moves := get(w, &trellisv1alpha1.ScalingGroup{}, w.name, "g-worker").Spec.Moves; moves != trellisv1alpha1.MovesInPlace {
			return fmt.Errorf("spec.moves is %q", moves)
		}
		return nil
	})
}

// movedOnce: one replica has moved, and no other pod is new.
func (w *world) movedOnce(before map[types.UID]bool) error {
	kept := 0
	for uid := range w.uids() {
		if before[uid] {
			kept++
		}
	}
	if kept != 3 || len(w.uids()) != 5 {
		return fmt.Errorf("%d of %d pods are from before the drain, want 3 of 5", kept, len(w.uids()))
	}
	for _, pod := range w.all() {
		if pod.Spec.NodeName == "" || get(w, &corev1.Node{}, "", pod.Spec.NodeName).Spec.Unschedulable {
			return fmt.Errorf("pod %s is on the host that is drained, or on none", pod.Name)
		}
	}
	if moves := get(w, &trellisv1alpha1.ScalingGroup{}, w.name, "g-worker").Status.Moves; len(moves) > 0 {
		return fmt.Errorf("there are moves: %+v", moves)
	}
	return nil
}

// repackSoon has replicas move for a gang that has waited for a second.
func repackSoon(o *operator.Options) {
	o.RepackAfter, o.RepackRest = time.Second, time.Second
}

// fillRack occupies GPUs of both hosts in a/r1 with pods of another client.
func (w *world) fillRack(gpus int) {
	w.t.Helper()
	for host := range 2 {
		w.occupy(fmt.Sprintf("fixed-%d-%d", gpus, host), fmt.Sprintf("a-r1-%d", host), gpus)
	}
}

// fillInPieces fills the racks of zone a so that neither has a place for two pods of 8 GPUs, and one would have without a replica that may
// move to the other rack, which was full.
func fillInPieces(w *world) {
	small := w.graphOf("small", "zone", services{"Small": worker(1, 2, 4, "rack")})
	small.Annotations = map[string]string{render.AnnotationMayMove: "true"}
	w.create(small)
	w.ready("small")
	for host := range 2 {
		w.deletePod(fmt.Sprintf("fixed-8-%d", host))
	}
	w.fillRack(4)
}

// freedOnce: the replica of small has moved once, big has the rack that it left, and nothing else is new.
func (w *world) freedOnce(before map[types.UID]bool) error {
	kept := 0
	for uid := range w.uids() {
		if before[uid] {
			kept++
		}
	}
	if kept != 5 || len(w.uids()) != 9 {
		return fmt.Errorf("%d of %d pods are from before, want 5 of 9", kept, len(w.uids()))
	}
	for _, pod := range w.all() {
		if _, requested := pod.Annotations[leaving.AnnotationEviction]; requested || !serves(&pod) {
			return fmt.Errorf("pod %s is requested to move, or does not serve", pod.Name)
		}
	}
	for _, of := range []struct{ graph, rack string }{{"small", "a/r1"}, {"big", "a/r0"}} {
		if in := w.domains("rack", podsOf(w, of.graph)...); !slices.Equal(in, []string{of.rack}) {
			return fmt.Errorf("%s is in %v, want %s", of.graph, in, of.rack)
		}
	}
	if names := []string{podsOf(w, "small")[0].Labels[render.LabelReplica], podsOf(w, "big")[0].Labels[render.LabelReplica]}; !slices.Equal(names, []string{"1", "0"}) {
		return fmt.Errorf("the ordinals are %v, want that of one successor, and the first one", names)
	}
	for _, sg := range list(w, &trellisv1alpha1.ScalingGroupList{}).Items {
		if len(sg.Status.Moves) > 0 {
			return fmt.Errorf("there are moves: %+v", sg.Status.Moves)
		}
	}
	return nil
}

// renamed is end with other ordinals.
func renamed(pairs ...string) string {
	lines := strings.Split(strings.NewReplacer(pairs...).Replace(end), "\n")
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// without is end without one of the two replicas.
func without(ordinal int) string {
	lines := strings.Split(strings.Replace(end, "group g-worker 2/2/2/2 placements 2", "group g-worker 1/1/1/1 placements 1", 1), "\n")
	return strings.Join(slices.DeleteFunc(lines, func(line string) bool {
		return strings.Contains(line, fmt.Sprintf("worker-%d-", ordinal)) || strings.Contains(line, fmt.Sprintf("worker %d ", ordinal))
	}), "\n")
}

func (w *world) endsAs(want string) error {
	if got := w.summary(); got != want {
		return fmt.Errorf("it is\n%s\nwant\n%s", got, want)
	}
	return nil
}

var _ = Describe("An operator that dies in the middle of a scene", suite.Faults, func() {
	// The operator dies while a graph is updated, scaled in, restarted, recreated or preempted, under both providers whose pods are Trellis' own. It dies
	// at a random write, TRELLIS_LIFE_SEED repeats one; with TRELLIS_CRASHES=all (make test-faults) at every one. Otherwise each scene is under one of
	// the providers.
	DescribeTable("changes nothing about how it ends", func(ctx SpecContext, one crashedScene) {
		sc := scenes[one.name]
		if one.all == nil {
			By("crash " + one.once.String())
			sc.play(ctx, one.provider, one.name, one.once)
			return
		}
		total := counted(ctx, string(one.provider)+"-"+one.name, func() int { return sc.play(ctx, one.provider, one.name, crash.Point{}) })
		for _, c := range one.all.of(total) {
			By("crash " + c.String())
			sc.play(ctx, one.provider, one.name, c)
		}
	}, crashedScenes(seeded()))
})

// crashedScene is a scene in which the operator dies.
type crashedScene struct {
	name     string
	provider sandbox.Provider
	// once is where it dies, unless it dies everywhere in all.
	once crash.Point
	all  *lot
}

func crashedScenes(r *rand.Rand) (out []TableEntry) {
	providers := []sandbox.Provider{sandbox.Gates, sandbox.PodGroup}
	turn := r.IntN(len(providers))
	for _, name := range slices.Sorted(maps.Keys(scenes)) {
		turn++
		under := providers
		if scenes[name].options != nil {
			under = providers[:1]
		}
		for i, provider := range under {
			title := fmt.Sprintf("%s under %s", name, provider)
			once := crash.Point{At: 1 + r.IntN(scenes[name].writes), Applied: r.IntN(2) == 0}
			switch {
			case crash.All:
				for number := range lotsOfAScene {
					all := &lot{every: 1, number: number, among: lotsOfAScene}
					title := fmt.Sprintf("%s, lot %d of %d", title, number+1, lotsOfAScene)
					out = append(out, Entry(title, SpecTimeout(crashesOfALot*suite.Timeout()), crashedScene{name: name, provider: provider, all: all}))
				}
			case i == turn%len(under):
				out = append(out, Entry(title, SpecTimeout(suite.Timeout()), crashedScene{name: name, provider: provider, once: once}))
			}
		}
	}
	return out
}

// lotsOfAScene are in how many specs all crashes of a scene under a provider are tried.
const lotsOfAScene = 8

// crashesOfALot bounds how many crashes a lot has: each of them may take as long as a spec.
const crashesOfALot = 32

// play brings the graph up, changes it with an operator that dies at a write, and starts another one then. It returns the writes until the end or
// the crash. A crash at 0 does not happen.
func (sc scene) play(ctx context.Context, provider sandbox.Provider, name string, c crash.Point) int {
	GinkgoHelper()
	name += "-" + c.String()
	w := bare[provider].open(ctx).newWorld(ctx, name, racks(2, 8, append([]string{"a/r0", "b/r0", "b/r1"}, sc.racks...)...)...)
	config := w.config()
	releases := &crash.Ledger{}
	s := &crash.Saboteur{Name: name, Ledger: releases, Provider: string(provider)}
	var options []func(*operator.Options)
	if sc.options != nil {
		options = append(options, sc.options)
	}
	ended, stop := operate(config, name, s, options...)
	defer func() { stop() }()
	if sc.first != nil {
		sc.first(w)
	}
	w.create(w.graphOf("g", "zone", services{"Worker": worker(2, 2, 8, "rack"), "Frontend": frontend(1)}))
	w.until("it runs", func() error { return w.endsAs(end) })
	if sc.prepare != nil {
		sc.prepare(w)
	}
	before, watcher := w.uids(), w.follow()
	if sc.most > 0 {
		watcher.bound(sc.least, sc.most, "Worker")
	}
	s.Arm(c)
	sc.change(w)
	w.until("it ends as if nothing had happened", func() error {
		select {
		case <-ended:
			ended, stop = operate(config, name, &crash.Saboteur{Name: name, Ledger: releases, Provider: string(provider)}, options...)
		default:
		}
		if err := sc.missing(w, before); err != nil {
			return fmt.Errorf("after a crash at %q: %w", s.Died(), err)
		}
		return nil
	})
	watcher.stop()
	Expect(releases.Repeated()).To(BeEmpty(), "pods that were released more than once")
	writes := s.Counted()
	w.tearDown() // a lot plays many worlds on one API server
	return writes
}
