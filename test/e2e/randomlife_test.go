// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/ginkgo/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

var _ = Describe("A random life", suite.Faults, func() {
	// Users, hardware and admins act at random, now in a hurry, now with patience. At no moment is a gang or the graph split, an update below its floor,
	// or a foreign pod touched, and nothing moves, as no one asks for it; and when all of it ends, the deployment is what a new one would be.
	//
	// TRELLIS_LIFE_STEPS makes it longer, TRELLIS_LIFE_SEED repeats one: the orders are the same, how fast the cluster follows is not.
	It("never splits the graph, and leaves the deployment as a new one would be", func(ctx SpecContext) {
		steps, seed := lifeOf(manySteps)
		w := newWorld(ctx, "life", lifeHosts...)
		w.liveRandomly(steps, seed, true)
	}, SpecTimeout(lifeTimeout(manySteps)), PollProgressAfter(0))
})

// manySteps and fewSteps are how many steps a life has, unless TRELLIS_LIFE_STEPS sets it.
const manySteps, fewSteps = 25, 4

func stepsOr(otherwise int64) int64 { return fromEnv("TRELLIS_LIFE_STEPS", otherwise) }

// lifeTimeout is how long a life may take: each of its steps may wait for something.
func lifeTimeout(otherwise int64) time.Duration {
	return suite.Timeout() + time.Duration(stepsOr(otherwise))*suite.Patience()/5
}

// lifeOf is how many steps a life has, and its seed, which it reports.
func lifeOf(otherwise int64) (steps, seed int64) {
	steps = stepsOr(otherwise)
	AddReportEntry(fmt.Sprintf("TRELLIS_LIFE_SEED=%d TRELLIS_LIFE_STEPS=%d", lifeSeed(), steps))
	return steps, lifeSeed()
}

var lifeHosts = racks(2, 8, "a/r0", "a/r1", "a/r2", "a/r3", "b/r0", "b/r1", "b/r2", "b/r3")

// liveRandomly is a random life of a deployment, on lifeHosts. bounded: updates keep to their floors and ceilings.
func (w *world) liveRandomly(steps, seed int64, bounded bool) {
	w.t.Helper()
	w.occupy("foreign", "b-r3-0", 1)
	w.create(w.graphOf("g", "zone", services{"Worker": worker(2, 2, 8, "rack"), "Frontend": frontend(1)}))
	w.ready("g")
	l := &life{user: &user{world: w, rand: rand.New(rand.NewPCG(uint64(seed), 0)), graph: "g"}, watcher: w.follow(), whole: true, bounded: bounded}
	l.watcher.oneZone = true
	l.watcher.expectNoMoves()
	l.calm()
	for i := range steps {
		l.step(int(i))
		if len(l.watcher.failed()) > 0 {
			break
		}
	}
	l.settle()
	l.watcher.stop()
	l.asANewOne()
}

func fromEnv(name string, otherwise int64) int64 {
	if n, err := strconv.ParseInt(os.Getenv(name), 10, 64); err == nil {
		return n
	}
	return otherwise
}

// life is one deployment, g, and what befalls it.
type life struct {
	*user
	watcher *observer
	// whole: all nodes and levels are there. dead is the node that is not.
	whole bool
	dead  *host
	// replicas wanted, and what an update may not go below; undisturbed since it was last settled.
	replicas    map[string]int
	floors      map[string]limits
	undisturbed bool
	// bounded: updates are expected to keep to their bounds.
	bounded bool
}

// calm: everything is as wanted, so an update has its full bounds from here on.
func (l *life) calm() {
	l.replicas, l.floors, l.undisturbed = map[string]int{}, map[string]limits{}, l.bounded
	for name, s := range l.dgd("g").Spec.Services {
		n := int(*s.Replicas)
		l.replicas[name], l.floors[name] = n, limits{max(0, n-1), n}
		if l.bounded {
			l.watcher.expect(name, max(0, n-1), n)
		}
	}
}

// disturb: from here on replicas may be missing for other reasons than an update.
func (l *life) disturb() {
	l.undisturbed = false
	l.watcher.ignore()
}

func (l *life) step(i int) {
	actions := []struct {
		name string
		do   func() string
	}{
		{"scale", l.scaleSome}, {"scale", l.scaleSome}, {"edit the image", l.editImage}, {"edit the environment", l.editEnv},
		{"restart", func() string { return l.restart(nvidiav1alpha1.RestartStrategySequential) }},
		{"restart all", func() string { l.disturb(); return l.restart(nvidiav1alpha1.RestartStrategyParallel) }},
		{"kill pods", l.killPods}, {"kill a node", l.killNode}, {"lose a level", l.loseLevel}, {"lose the topology", l.loseTopology},
		{"lack quota", l.lackQuota},
		{"restore", l.restore}, {"delete and create", l.recreateIt},
	}
	if !l.whole && l.rand.IntN(3) == 0 {
		l.t.Logf("step %d: restored", i)
		l.restore()
	}
	a := actions[l.rand.IntN(len(actions))]
	l.t.Logf("step %d: %s %s", i, a.name, a.do())
	if l.rand.IntN(2) == 0 && l.whole {
		l.settle()
		l.t.Logf("step %d: settled", i)
	}
}

// settle restores the cluster and waits until the deployment is as wanted.
func (l *life) settle() {
	l.restore()
	l.ready("g")
	l.until("nothing is left over", func() error {
		wanted := 0
		for name, s := range l.dgd("g").Spec.Services {
			size := 1
			if s.Multinode != nil {
				size = int(s.Multinode.NodeCount)
			}
			wanted += int(*s.Replicas) * size
			for ordinal, pods := range l.replicasOf(name) {
				if racks := l.domains("rack", pods...); size > 1 && len(racks) != 1 {
					return fmt.Errorf("%s-%d is in %v", name, ordinal, racks)
				}
			}
		}
		if n := len(l.all()); n != wanted {
			return fmt.Errorf("%d pods, want %d", n, wanted)
		}
		return nil
	})
	l.calm()
}

// asANewOne compares the deployment with what a new one of the same spec comes to.
func (l *life) asANewOne() {
	var lived map[string]any
	l.until("its status says that it is ready, and nothing is amiss", func() error { // an operator that sees things late writes what was
		dgd := l.dgd("g")
		lived = l.portrait(dgd)
		return amiss(dgd)
	})
	old := l.dgd("g")
	l.remove(old)
	l.until("nothing is left", func() error {
		if n := len(list(l.world, &trellisv1alpha1.ScalingGroupList{}).Items) + len(l.all()); n > 0 {
			return fmt.Errorf("%d objects", n)
		}
		return nil
	})
	l.createAgain(old)
	l.until("after its life it is as a new one", func() error {
		if diff := cmp.Diff(l.portrait(l.dgd("g")), lived); diff != "" {
			return fmt.Errorf("(-new +lived):\n%s", diff)
		}
		return nil
	})
}

// amiss is what a deployment's status lacks of all replicas being ready where they were placed.
func amiss(dgd *nvidiav1alpha1.DynamoGraphDeployment) error {
	if dgd.Status.State != nvidiav1alpha1.StateSuccessful {
		return fmt.Errorf("state %v", dgd.Status.State)
	}
	for _, c := range dgd.Status.Conditions {
		if c.Status == metav1.ConditionFalse {
			return fmt.Errorf("%s is False: %s", c.Type, c.Reason)
		}
	}
	for name, s := range dgd.Status.Services {
		counts := []int32{s.UpdatedReplicas, ptr.Deref(s.ReadyReplicas, 0), ptr.Deref(s.AvailableReplicas, 0), ptr.Deref(s.ScheduledReplicas, 0), int32(len(s.Placements))}
		if slices.Min(counts) != s.Replicas || slices.Max(counts) != s.Replicas {
			return fmt.Errorf("%s: of %d replicas, %v are updated, ready, available, scheduled and placed", name, s.Replicas, counts)
		}
	}
	return nil
}

// portrait is everything about the deployment that its history must not show in: what is asked of each group, its pods without their
// numbers and places, and the status without what happened when.
func (l *life) portrait(dgd *nvidiav1alpha1.DynamoGraphDeployment) map[string]any {
	out := map[string]any{"state": dgd.Status.State, "summary": dgd.Status.Summary}
	var conditions []string
	for _, c := range dgd.Status.Conditions {
		conditions = append(conditions, fmt.Sprintf("%s=%s/%s", c.Type, c.Status, c.Reason))
	}
	slices.Sort(conditions)
	out["conditions"] = conditions
	for name, s := range dgd.Status.Services {
		out["status of "+name] = fmt.Sprintf("replicas %d updated %d ready %d available %d scheduled %d placed %d",
			s.Replicas, s.UpdatedReplicas, ptr.Deref(s.ReadyReplicas, -1), ptr.Deref(s.AvailableReplicas, -1), ptr.Deref(s.ScheduledReplicas, -1), len(s.Placements))
	}
	for _, sg := range list(l.world, &trellisv1alpha1.ScalingGroupList{}).Items {
		sg.Spec.Restart = nil
		spec, err := json.Marshal(sg.Spec)
		if err != nil {
			l.t.Fatal(err)
		}
		out["group "+sg.Name] = string(spec)
	}
	var pods []string
	for _, pod := range l.all() {
		pods = append(pods, fmt.Sprintf("%s %s %s revision %s of %s pods", pod.Labels[render.LabelComponent], pod.Labels[render.LabelRole],
			pod.Spec.Containers[0].Image, pod.Labels[render.LabelRevision], pod.Labels[render.LabelReplicaSize]))
	}
	slices.Sort(pods)
	out["pods"] = pods
	return out
}
