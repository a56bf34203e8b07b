// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"errors"
	"maps"
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/provider"
	"github.com/trellis-k8s/trellis/internal/render"
)

// ofTwoComponents is a graph in one rack, of which rack a has two hosts: alpha has two replicas and omega one, each of one pod.
func ofTwoComponents() gang.Observation {
	o := asking(2, 0, 0)
	o.Groups = nil
	for _, of := range []struct {
		name     string
		replicas int32
	}{{"alpha", 2}, {"omega", 1}} {
		sg := newGroup(of.name, of.replicas, 1, frozen("rack", ""))
		sg.Name, sg.UID, sg.Spec.Graph = "g2-"+of.name, types.UID("g2-"+of.name), "g2"
		o.Groups = append(o.Groups, sg)
		for ordinal := range of.replicas {
			pod := withGPU(newPod(sg, ordinal, 0))
			pod.CreationTimestamp = metav1.Time{Time: begin}
			o.Pods = append(o.Pods, pod)
		}
	}
	return o
}

// beginning is a loop that has room for the base gang of ofTwoComponents, of which it cannot release omega.
func beginning(t *testing.T) (*bench, *opening, gang.Observation) {
	b, p, o := beginningOn(t)
	if !render.GateClosed(o.Pods[1]) {
		t.Fatal("alpha-1 is released")
	}
	return b, p, o
}

// beginningOn is the same with further hosts in the rack.
func beginningOn(t *testing.T, hosts ...string) (*bench, *opening, gang.Observation) {
	b := newBench(t, Options{RequeueAfter: 30 * time.Second})
	for _, host := range hosts {
		b.host(host, "a", 1)
	}
	b.taken("b0", "b1")
	p, o := &opening{b: b, failing: "g2-omega-0", err: errors.New("denied by a policy")}, ofTwoComponents()
	b.s.objects.reader, b.s.providers = graphs{"g2": o}, provider.New(provider.Options{}, provider.All{Placers: []provider.Placer{p}})
	b.s.queue.add(clientKey(o))
	b.settle()
	if render.GateClosed(o.Pods[0]) || !render.GateClosed(o.Pods[2]) {
		t.Fatal("alpha-0 is not released, or omega-0 is")
	}
	bound := corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Time{Time: begin}}
	o.Pods[0].Status.Conditions = []corev1.PodCondition{bound}
	return b, p, o
}

// A further replica of a component does not get the capacity of the part of the base gang whose release failed.
func TestABaseGangThatHasBegunComesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, p, o := beginning(t)
		p.failing = ""
		b.pass(retryAfter)
		b.settle()
		if render.GateClosed(o.Pods[2]) || !render.GateClosed(o.Pods[1]) {
			t.Error("alpha-1 has the capacity of omega-0")
		}
		for _, key := range []string{render.AnnotationGang, render.AnnotationGangReplicas} {
			if of := o.Pods[0].Annotations[key]; of == "" || of != o.Pods[2].Annotations[key] {
				t.Errorf("the rest has another %s, and is evicted without the first part", key)
			}
		}
	})
}

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

// What was released of a base gang is lost otherwise than by an eviction: the rest keeps no capacity for it while its successor is not created.
func TestTheRestOfALostBaseGangHoldsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _, o := beginning(t)
		if b.nodeOf(o.Pods[2]) == "" {
			t.Fatal("omega-0 has no reservation")
		}
		lost := o.Pods[0]
		o.Pods = o.Pods[1:]
		b.s.objects.reader = graphs{"g2": o}
		b.s.podGone(lost)
		b.s.queue.add(clientKey(o))
		b.settle()
		if node := b.nodeOf(o.Pods[1]); node != "" {
			t.Errorf("omega-0 has a reservation on %s", node)
		}
	})
}

// The successor of what was released makes another base gang. When no pod of it can be released, it keeps no capacity.
func TestAnotherBaseGangHasNotBegun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _, o := beginning(t)
		lost := o.Pods[0]
		next := withGPU(newPod(o.Groups[0], 0, 0))
		next.UID, next.CreationTimestamp = "successor", metav1.Time{Time: begin.Add(time.Hour)}
		o.Pods[0] = next
		b.s.objects.reader = graphs{"g2": o}
		b.s.podGone(lost)
		b.s.queue.add(clientKey(o))
		b.settle()
		for _, pod := range o.Pods {
			if node := b.nodeOf(pod); node != "" {
				t.Errorf("%s has a reservation on %s", pod.Name, node)
			}
		}
	})
}

// A base gang of which a component is never released, or finds no capacity, is evicted as a unit.
func TestABaseGangThatStaysInPartIsEvicted(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(b *bench, p *opening, o gang.Observation)
		least  time.Duration
		want   int
	}{
		"never released": {func(*bench, *opening, gang.Observation) {}, servedPatience * 30 * time.Second, 1},
		"no capacity": {func(b *bench, _ *opening, o gang.Observation) {
			b.host(b.nodeOf(o.Pods[2]), "elsewhere", 1)
		}, 30 * time.Second, 1},
		"no capacity, and a component is scaled from 0": {func(b *bench, _ *opening, o gang.Observation) {
			b.host(b.nodeOf(o.Pods[2]), "elsewhere", 1)
			o.Groups, o.Pods = withZeta(&o, func(sg *trellisv1alpha1.ScalingGroup) { sg.Status.Begun = true })
			b.s.objects.reader = graphs{"g2": o}
		}, 30 * time.Second, 1},
		"a member was lost since": {func(b *bench, _ *opening, o gang.Observation) {
			b.host(b.nodeOf(o.Pods[2]), "elsewhere", 1)
			o.Pods[2].UID = "successor"
		}, time.Hour, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, p, o := beginning(t)
				tc.change(b, p, o)
				for len(p.taken) == 0 && b.clock.Since(begin) < time.Hour {
					b.pass(time.Second)
					b.settle()
				}
				if waited := b.clock.Since(begin); len(p.taken) != tc.want || tc.want > 0 && p.taken[0] != "g2-alpha-0" || waited < tc.least ||
					tc.want > 0 && waited > tc.least+lastRetry {
					t.Errorf("evicted after %s: %v", waited, p.taken)
				}
				if n := b.count(func(r *released) bool { return r.begun }); tc.want > 0 && n > 0 {
					t.Errorf("%d pods keep capacity for the gang", n)
				}
			})
		})
	}
}

// The operator was started again in the middle of the release of a base gang: no one is planned onto the hosts of the rest.
func TestTheRestOfABaseGangIsRecovered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, _, o := beginning(t)
		for _, lost := range []bool{false, true} {
			b := newBench(t, Options{})
			b.taken("b0", "b1")
			b.s.objects.reader = graphs{"g2": o}
			b.s.podSet(nil, o.Pods[0])
			want := "holds 0 of 1"
			if lost {
				o.Pods[2].UID, want = "successor", "rack a"
			}
			if err := b.s.recoverAll(t.Context()); err != nil {
				t.Fatal(err)
			}
			b.expect("an older graph", asking(1, 1, 0), want)
		}
	})
}

// withZeta adds a component that came after the base gang, and waits.
func withZeta(o *gang.Observation, change func(*trellisv1alpha1.ScalingGroup)) ([]*trellisv1alpha1.ScalingGroup, []*corev1.Pod) {
	zeta := newGroup("zeta", 1, 1, frozen("rack", ""))
	zeta.Name, zeta.UID, zeta.Spec.Graph = "g2-zeta", "g2-zeta", "g2"
	change(zeta)
	pod := withGPU(newPod(zeta, 0, 0))
	pod.CreationTimestamp = metav1.Time{Time: begin.Add(time.Minute)}
	return append(slices.Clone(o.Groups), zeta), append(slices.Clone(o.Pods), pod)
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
				p.failing = ""
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
				if left := b.s.ledger.continued(o); left != nil {
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
		p.failing = ""
		b.pass(retryAfter)
		b.settle()
		b.s.ledger.pods.setParted(string(o.Pods[2].UID), "no capacity for its other pod", begin)
		b.pass(time.Minute)
		gangs, _ := b.s.ledger.stuckGangs(o)
		b.s.ledger.requeued(o, gangs)
		if gangs[o.Pods[1].Annotations[render.AnnotationGang]].why == "" {
			t.Errorf("alpha-1 is not evicted with the base gang: %v", gangs)
		}
	})
}

// A component that is scaled from 0 is not of the base gang that runs: the gang is not evicted for it.
func TestAComponentFromZeroIsNotOfTheBaseGang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, p, o := beginning(t)
		p.failing = ""
		b.pass(retryAfter)
		b.settle()
		o.Groups, _ = withZeta(&o, func(*trellisv1alpha1.ScalingGroup) {})
		if halves := gang.NewRequest(o).Halves(b.clock.Now()); len(halves) > 0 {
			t.Errorf("halves: %v", halves)
		}
	})
}

// identified are the replicas 0 of components, as pods that are created in place name them.
func identified(components ...string) string {
	var base gang.Base
	for _, name := range components {
		base.Replicas = append(base.Replicas, gang.Key{Component: name})
	}
	return base.Identity()
}

// inPart is a loop of a new operator, and the graph of ofTwoComponents, of which the former operator has created the first replica of alpha
// in place, as one of a gang of both components. Rack a has no host for omega.
func inPart(t *testing.T) (*bench, *opening, gang.Observation) {
	b := newBench(t, Options{RequeueAfter: 30 * time.Second})
	b.taken("b0", "b1", "a1")
	o := ofTwoComponents()
	o.Groups[0].Spec.Replicas = 1
	o.Pods = []*corev1.Pod{o.Pods[0], o.Pods[2]}
	first := o.Pods[0]
	opened(first, "g2-gang", map[string]string{"z": "z", "r": "a"})
	first.Annotations[render.AnnotationGangReplicas], first.Annotations[render.AnnotationCreation] = identified("alpha", "omega"), "former-1"
	first.Spec.NodeName = "a0"
	first.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Time{Time: begin}}}
	p := &opening{b: b}
	b.s.objects.reader, b.s.providers = graphs{"g2": o}, provider.New(provider.Options{}, provider.All{Placers: []provider.Placer{p}})
	b.s.podSet(nil, first)
	return b, p, o
}

// An operator that created a base gang in place is gone with a part of it. The rest is released with that part, or all of it is evicted.
func TestABaseGangThatWasCreatedInPart(t *testing.T) {
	for name, tc := range map[string]struct {
		change   func(b *bench, o *gang.Observation)
		evicted  bool
		released bool
	}{
		"no capacity":       {func(*bench, *gang.Observation) {}, true, false},
		"there is capacity": {func(b *bench, _ *gang.Observation) { b.freed("a1") }, false, true},
		"the rest had a place in a former gang, and was never bound": {func(_ *bench, o *gang.Observation) {
			o.Groups[1].Status.Placements = []trellisv1alpha1.ReplicaPlacement{{Replica: 0, Domain: "z/a"}}
		}, true, false},
		"a component is scaled from 0": {func(_ *bench, o *gang.Observation) {
			o.Groups, o.Pods = withZeta(o, func(sg *trellisv1alpha1.ScalingGroup) { sg.Status.Begun = true })
		}, true, false},
		"a component that was added is released": {func(b *bench, o *gang.Observation) {
			o.Groups, o.Pods = withZeta(o, func(sg *trellisv1alpha1.ScalingGroup) {
				sg.CreationTimestamp = metav1.Time{Time: begin.Add(time.Minute)}
			})
			zeta := o.Pods[2]
			opened(zeta, "g2-later", map[string]string{"z": "z", "r": "a"})
			zeta.Spec.NodeName = "a1"
			b.s.podSet(nil, zeta)
		}, true, false},
		"a component is added": {func(_ *bench, o *gang.Observation) {
			o.Groups, o.Pods = withZeta(o, func(sg *trellisv1alpha1.ScalingGroup) {
				sg.CreationTimestamp = metav1.Time{Time: begin.Add(time.Minute)}
			})
		}, true, false},
		"the component has run, under another ordinal": {func(_ *bench, o *gang.Observation) {
			o.Groups[1].Status.Begun = true
		}, false, false},
		"the group was recreated": {func(_ *bench, o *gang.Observation) {
			o.Groups[1].CreationTimestamp = metav1.Time{Time: begin.Add(time.Minute)}
		}, false, false},
		"the gang is of other replicas": {func(_ *bench, o *gang.Observation) {
			o.Pods[0].Annotations[render.AnnotationGangReplicas] = identified("alpha", "zeta")
		}, false, false},
		"another was recreated": {func(b *bench, o *gang.Observation) {
			b.freed("a1")
			more := newGroup("middle", 1, 1, frozen("rack", ""))
			more.Name, more.UID, more.Spec.Graph = "g2-middle", "g2-middle", "g2"
			pod := withGPU(newPod(more, 0, 0))
			opened(pod, "g2-successor", map[string]string{"z": "z", "r": "a"})
			pod.Spec.NodeName = "a1"
			o.Groups, o.Pods = append(o.Groups, more), append(o.Pods, pod)
			o.Pods[0].Annotations[render.AnnotationGangReplicas] = identified("alpha", "middle", "omega")
			b.s.podSet(nil, pod)
		}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, p, o := inPart(t)
				tc.change(b, &o)
				b.s.objects.reader = graphs{"g2": o}
				if err := b.s.recoverAll(t.Context()); err != nil {
					t.Fatal(err)
				}
				b.s.queue.add(clientKey(o))
				for len(p.taken) == 0 && b.clock.Since(begin) < 2*time.Minute {
					b.settle()
					b.pass(time.Second)
				}
				if got := slices.Contains(p.taken, "g2-alpha-0") && (len(o.Pods) < 3 || slices.Contains(p.taken, o.Pods[2].Name) == !render.GateClosed(o.Pods[2])); got != tc.evicted || !tc.evicted && len(p.taken) > 0 {
					t.Errorf("evicted: %v", p.taken)
				}
				rest := o.Pods[1]
				if got := !render.GateClosed(rest); got != tc.released || got && rest.Annotations[render.AnnotationGang] != "g2-gang" {
					t.Errorf("released: %v, of gang %s", got, rest.Annotations[render.AnnotationGang])
				}
			})
		})
	}
}

// The rest of a base gang that another operator has begun in place is created gated: that operator may continue.
func TestTheRestOfABaseGangIsCreatedGated(t *testing.T) {
	w, o := newCreating(t), ofTwoComponents()
	o.Groups[0].Spec.Replicas = 1
	w.s.objects.reader = withGroup{graphs{"g2": o}, o.Groups[0]}
	o.Pods = nil
	w.ask(o.Groups...)
	w.look(o)
	o.Pods = w.create(o.Groups[0], w.offerOf(o.Groups[0]))
	rest := w.creations.Ask(o.Groups[1], wantsOf(o.Groups[1], 1, 0))[0].Offer.Releases[0].Pin.GangReplicas
	if diff := cmp.Diff(identified("alpha", "omega"), rest); diff != "" {
		t.Errorf("the replicas of its gang (-want +got):\n%s", diff)
	}
	o.Pods[0].Annotations[render.AnnotationGangReplicas] = rest
	next := newCreating(t)
	next.s.objects.reader = withGroup{graphs{"g2": o}, o.Groups[1]}
	next.ask(o.Groups[1])
	next.look(o)
	if diff := cmp.Diff(map[string]string{"omega-0": "gated"}, next.ask(o.Groups[1])); diff != "" {
		t.Errorf("answer (-want +got):\n%s", diff)
	}
}

// What could not be evicted is evicted later only when a pod of the base gang was. A gang that followed and is stuck itself later is
// announced.
func TestEvictionsThatContinue(t *testing.T) {
	for name, tc := range map[string]struct {
		base    bool
		evicted int
		after   time.Duration
		runs    bool
		before  func(b *bench, o gang.Observation)
		want    []string
	}{
		"gangs of their own":         {want: nil},
		"the base gang is evicted":   {base: true, want: []string{"g2-alpha-1", "g2-base"}},
		"for long":                   {base: true, after: 2 * servedPatience * time.Minute},
		"and the graph runs by then": {base: true, runs: true},
		"a follower is evicted":      {base: true, evicted: 1},
		"for capacity elsewhere": {base: true, before: func(b *bench, o gang.Observation) {
			b.s.ledger.requeued(o, map[string]eviction{"g2-base": {reason: ReasonElsewhere, why: "no"}})
		}},
		"when nothing stood against it any more": {base: true, before: func(b *bench, o gang.Observation) { b.s.ledger.stuckGangs(o) }},
	} {
		b, o := newBench(t, Options{RequeueAfter: time.Minute}), ofTwoComponents()
		gangs := map[string]eviction{}
		for i, pod := range o.Pods {
			of := "g2-base"
			if i == 1 || !tc.base {
				of = pod.Name
			}
			opened(pod, of, nil)
			if of == "g2-base" {
				pod.Annotations[render.AnnotationGangReplicas] = identified("alpha", "omega")
			}
			b.track(pod)
			if i != 1 || !tc.base {
				gangs[of] = eviction{reason: ReasonUnschedulable, why: "no"}
			}
		}
		if announced, evict := b.s.ledger.requeued(o, gangs); len(announced) != 2 && tc.base || len(evict) != 3 {
			t.Errorf("%s: %v are announced, %d pods evicted", name, announced, len(evict))
		}
		if tc.before != nil {
			tc.before(b, o)
		}
		b.s.ledger.evicted(o, o.Pods[tc.evicted])
		b.pass(tc.after)
		if tc.runs {
			o.Groups[1].Spec.Replicas = 0
			o.Pods[1].Spec.NodeName = "a0"
		}
		left := b.s.ledger.continued(o)
		if diff := cmp.Diff(tc.want, slices.Sorted(maps.Keys(left))); diff != "" {
			t.Errorf("%s: evicted later (-want +got):\n%s", name, diff)
		}
		announced, _ := b.s.ledger.requeued(o, map[string]eviction{"g2-alpha-1": {reason: ReasonUnschedulable, why: "no"}})
		if tc.base && tc.evicted == 0 && len(announced) != 1 {
			t.Errorf("%s: announced %v", name, announced)
		}
		b.s.ledger.requeued(o, map[string]eviction{"g2-alpha-1": {reason: ReasonUnschedulable, why: "no", follows: true}})
		if announced, _ := b.s.ledger.requeued(o, map[string]eviction{"g2-alpha-1": {reason: ReasonUnschedulable, why: "no"}}); len(announced) > 0 {
			t.Errorf("%s: announced twice: %v", name, announced)
		}
	}
}
