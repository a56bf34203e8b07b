// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"maps"
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/trellis-k8s/trellis/internal/assignment"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/render"
)

// A further replica is released alongside the part of the base gang. It is evicted with that, or the graph would not leave its domain.
func TestReplicasAlongsideABaseGangInPart(t *testing.T) {
	both := []string{"g2-alpha-0", "g2-alpha-1"}
	for name, tc := range map[string]struct {
		noCapacity, later, runs bool
		// fail is how many evictions fail.
		fail int
		want []string
	}{
		"never released": {want: both}, "never released, and no eviction succeeds at first": {fail: 2, want: both}, "no capacity": {noCapacity: true, want: both},
		"no capacity, released later than the base gang": {noCapacity: true, later: true, want: both},
		"never released, and the graph runs":             {runs: true, want: both[:1]}, "no capacity, and the graph runs": {noCapacity: true, runs: true, want: both[:1]},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, p, o := beginningOn(t, "a2")
				if render.GateClosed(o.Pods[1]) {
					t.Fatal("alpha-1 is not released")
				}
				if tc.noCapacity {
					b.host(b.nodeOf(o.Pods[2]), "elsewhere", 1)
				}
				if tc.runs {
					o.Groups[1].Spec.Replicas = 2
					more := withGPU(newPod(o.Groups[1], 1, 0))
					opened(more, "g2-omega-1", map[string]string{"z": "z", "r": "a"})
					more.Spec.NodeName = "a2"
					o.Pods = append(o.Pods, more)
					b.s.objects.reader = graphs{"g2": o}
				}
				b.pass(20 * time.Second)
				b.settle()
				if tc.later {
					b.s.ledger.pods.change(string(o.Pods[1].UID), func(r *released) { r.parted.since = b.clock.Now().Add(10 * time.Second) })
				}
				p.fail = tc.fail
				for len(p.taken) == 0 && b.clock.Since(begin) < servedPatience*time.Minute {
					b.pass(time.Second)
					b.settle()
				}
				if slices.Sort(p.taken); !slices.Equal(p.taken, tc.want) {
					t.Errorf("evicted: %v", p.taken)
				}
			})
		})
	}
}

// binds has a pod bound.
func binds(b *bench, pod *corev1.Pod) func() {
	return func() {
		pod.Spec.NodeName, pod.Status.Conditions = "a1", nil
		b.s.podSet(nil, pod)
	}
}

// A pod of the base gang is not bound. What was released alongside the gang is evicted with it, or the graph would not leave its domain;
// but not where the graph runs without the gang. The pod that shows why is the last, so that it is known until all others are evicted.
func TestReplicasAlongsideABaseGangThatIsNotBound(t *testing.T) {
	all := []string{"g2-alpha-1", "g2-alpha-0", "g2-omega-0"}
	for name, tc := range map[string]struct {
		change func(b *bench, p *opening, o gang.Observation)
		want   []string
	}{
		"of the gang":         {func(*bench, *opening, gang.Observation) {}, all},
		"an eviction fails":   {func(_ *bench, p *opening, _ gang.Observation) { p.fail = 1 }, []string{"g2-alpha-0", "g2-omega-0", "g2-alpha-1"}},
		"both evictions fail": {func(_ *bench, p *opening, _ gang.Observation) { p.fail = 2 }, []string{"g2-omega-0", "g2-alpha-1", "g2-alpha-0"}},
		"it is bound before an eviction succeeds": {func(b *bench, p *opening, o gang.Observation) {
			p.fail, p.failed = 3, binds(b, o.Pods[2])
		}, nil},
		"an eviction never succeeds": {func(_ *bench, p *opening, _ gang.Observation) { p.fail = math.MaxInt }, nil},
		"the graph runs":             {func(_ *bench, _ *opening, o gang.Observation) { o.Groups[1].Spec.Replicas = 0 }, []string{"g2-alpha-0", "g2-omega-0"}},
		"one is lost meanwhile":      {func(_ *bench, _ *opening, o gang.Observation) { o.Pods[1].Spec.NodeName = "" }, all},
		"the successor of one that was lost": {func(_ *bench, _ *opening, o gang.Observation) {
			o.Pods[2].Annotations = map[string]string{render.AnnotationGang: "g2-successor"}
		}, []string{"g2-omega-0"}},
		"the last release is not seen yet": {func(b *bench, _ *opening, o gang.Observation) {
			gates := []corev1.PodSchedulingGate{{Name: render.PlacementGate}}
			o.Pods[1].Spec.SchedulingGates, o.Pods[1].Spec.NodeName = gates, ""
			b.s.ledger.pods.change(string(o.Pods[1].UID), func(r *released) { r.releasing = true })
		}, all},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, p, o := beginningOn(t, "a2")
				p.failing, p.unbound = "", "g2-omega-0"
				b.pass(retryAfter)
				b.settle()
				pod := o.Pods[2]
				if render.GateClosed(pod) || render.GateClosed(o.Pods[1]) {
					t.Fatal("not all of the graph is released")
				}
				pod.Spec.NodeName = ""
				pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: "no"}}
				tc.change(b, p, o)
				b.s.podSet(nil, pod)
				b.s.queue.add(clientKey(o))
				for b.clock.Since(begin) < 10*time.Minute && len(p.taken) < max(len(tc.want), 1) {
					b.pass(time.Second)
					b.settle()
					o.Pods = slices.DeleteFunc(slices.Clone(o.Pods), func(pod *corev1.Pod) bool {
						taken := slices.Contains(p.taken, pod.Name)
						if taken {
							b.s.podGone(pod)
						}
						return taken
					})
					b.s.objects.reader = graphs{"g2": o}
					if name == "the last release is not seen yet" && b.clock.Since(begin) > 40*time.Second && len(o.Pods) == 3 && render.GateClosed(o.Pods[1]) {
						if len(p.taken) > 0 {
							t.Fatalf("evicted before: %v", p.taken)
						}
						o.Pods[1].Spec.SchedulingGates = nil
						b.s.podSet(nil, o.Pods[1])
					}
				}
				if diff := cmp.Diff(tc.want, p.taken); diff != "" {
					t.Errorf("evicted (-want +got):\n%s", diff)
				}
				if left := b.continued(o); len(left) > 0 {
					t.Errorf("still to be evicted: %v", left)
				}
			})
		})
	}
}

// A base gang of which the rest of one replica finds no capacity takes along what was released alongside, although all that is released of
// it is bound.
func TestReplicasAlongsideAHalfOfABaseGang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, p, o := beginningOn(t, "a2")
		p.failing, p.unbound = "", "g2-omega-0"
		b.pass(retryAfter)
		b.settle()
		was, err := b.s.placements.of(t.Context(), o.DGD)
		if err != nil {
			t.Fatal(err)
		}
		o.Record = was.record
		b.s.ledger.pods.setParted(string(o.Pods[2].UID), "no capacity for its other pod", begin)
		b.pass(time.Minute)
		gangs, _ := b.s.ledger.stuckGangs(o)
		b.s.ledger.requeued(o, gangs)
		if gangs[o.Pods[1].Annotations[render.AnnotationGang]].why == "" {
			t.Errorf("alpha-1 is not evicted with the base gang: %v", gangs)
		}
	})
}

// continued are the gangs of a graph, as it is read under the lock, whose eviction continues.
func (b *bench) continued(o gang.Observation) map[string]eviction {
	_, left, _ := b.s.ledger.continued(o, asRead(o))
	return left
}

// asRead returns a function that reads a graph.
func asRead(o gang.Observation) func() (gang.Observation, error) {
	return func() (gang.Observation, error) { return o, nil }
}

// A failed eviction is repeated for ten times --requeue-after, also by the next leader.
func TestEvictionsThatContinue(t *testing.T) {
	for name, tc := range map[string]struct {
		base   bool
		after  time.Duration
		change func(*bench, *gang.Observation)
		want   []string
	}{
		"gangs of their own":       {want: []string{"g2-alpha-0", "g2-alpha-1", "g2-omega-0"}},
		"the base gang is evicted": {base: true, want: []string{"g2-alpha-1", "g2-base"}},
		"for long":                 {base: true, after: 2 * servedPatience * time.Minute},
		"and a gang that was released meanwhile": {base: true, change: func(_ *bench, o *gang.Observation) {
			more := newPod(o.Groups[0], 2, 0)
			opened(more, "g2-alpha-2", nil)
			o.Pods = append(o.Pods, more)
		}, want: []string{"g2-alpha-1", "g2-alpha-2", "g2-base"}},
		"but not one that is left": {base: true, change: func(_ *bench, o *gang.Observation) { o.Pods = o.Pods[1:2] }, want: []string{"g2-alpha-1"}},
		"and no pod of it could be deleted": {base: true, change: func(b *bench, o *gang.Observation) {
			was := *o
			was.Record = o.Record.Clone()
			was.Record.Keep("g2-base", begin)
			was.Record.Keep("g2-alpha-1", begin)
			b.s.ledger.keepUnbegun(was, map[string]eviction{"g2-base": {why: "no"}, "g2-alpha-1": {why: "no", follows: true}}, nil)
		}},
	} {
		b, o := newBench(t, Options{RequeueAfter: time.Minute}), ofTwoComponents()
		gangs := map[string]eviction{}
		o.Record = (&assignment.Record{}).Clone()
		for i, pod := range o.Pods {
			of, key := "g2-base", []gang.Key{{Component: "alpha"}, {Component: "alpha", Ordinal: 1}, {Component: "omega"}}[i]
			if i == 1 || !tc.base {
				of = pod.Name
			}
			opened(pod, of, nil)
			o.Record.Assign(of, key, nil, nil, begin)
			b.track(pod)
			if i != 1 || !tc.base {
				gangs[of] = eviction{reason: ReasonUnschedulable, why: "no"}
			}
		}
		o.Record.Begins("g2-base")
		announced, evict := b.s.ledger.requeued(o, gangs)
		if len(announced) != 2 && tc.base || len(evict) != 3 {
			t.Errorf("%s: %v are announced, %d pods evicted", name, announced, len(evict))
		}
		for of := range gangs {
			o.Record.Evict(of, nil, "no", b.clock.Now())
		}
		if tc.change != nil {
			tc.change(b, &o)
		}
		b.pass(tc.after)
		if diff := cmp.Diff(tc.want, slices.Sorted(maps.Keys(b.continued(o)))); diff != "" {
			t.Errorf("%s: evicted later (-want +got):\n%s", name, diff)
		}
		if announced, _ := b.s.ledger.requeued(o, gangs); slices.Contains(announced, "g2-base") || slices.Contains(announced, "g2-alpha-1") {
			t.Errorf("%s: announced twice: %v", name, announced)
		}
	}
}
