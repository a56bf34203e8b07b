// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/assignment"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/provider"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/topology"
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
	newRecordStore(t, b)
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
		if of := o.Pods[0].Annotations[render.AnnotationGang]; of == "" || of != o.Pods[2].Annotations[render.AnnotationGang] {
			t.Error("the rest is of another gang, and is evicted without the first part")
		}
	})
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
			o.Groups, o.Pods = withZeta(&o, func(*trellisv1alpha1.ScalingGroup) {})
			b.s.objects.reader = graphs{"g2": o}
		}, 30 * time.Second, 1},
		"no capacity, and its gated pod was recreated": {func(b *bench, _ *opening, o gang.Observation) {
			b.host(b.nodeOf(o.Pods[2]), "elsewhere", 1)
			b.s.podGone(o.Pods[2].DeepCopy())
			o.Pods[2].UID = "successor"
		}, 30 * time.Second, 1},
		"never created": {func(b *bench, p *opening, o gang.Observation) {
			p.failing = ""
			b.s.podGone(o.Pods[2])
			o.Pods = o.Pods[:2]
			b.s.objects.reader = graphs{"g2": o}
		}, (servedPatience + 1) * 30 * time.Second, 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, p, o := beginning(t)
				tc.change(b, p, o)
				for len(p.taken) == 0 && b.clock.Since(begin) < time.Hour {
					b.pass(time.Second)
					b.settle()
				}
				if waited := b.clock.Since(begin); len(p.taken) != tc.want || !slices.Contains(p.taken, "g2-alpha-0") || waited < tc.least ||
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

// The operator was started again in the middle of the release of a base gang: no one is planned onto the hosts of the rest, also when its
// pods were recreated.
func TestTheRestOfABaseGangIsRecovered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		former, _, o := beginning(t)
		for _, recreated := range []bool{false, true} {
			b := newBench(t, Options{})
			b.taken("b0", "b1")
			b.s.objects.reader, b.s.placements = graphs{"g2": o}, former.s.placements
			b.s.podSet(nil, o.Pods[0])
			if recreated {
				o.Pods[2].UID = "successor"
			}
			if err := b.s.recoverAll(t.Context()); err != nil {
				t.Fatal(err)
			}
			b.expect("an older graph", asking(1, 1, 0), "holds 0 of 1")
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

// inPart returns the loop of a new operator and the graph of ofTwoComponents. The former operator has created alpha-0, from a base gang of
// both components. Rack a has no host for omega.
func inPart(t *testing.T, change func(*assignment.Record)) (*bench, *opening, gang.Observation) {
	b := newBench(t, Options{RequeueAfter: 30 * time.Second})
	newRecordStore(t, b)
	b.taken("b0", "b1", "a1")
	o := ofTwoComponents()
	o.Groups[0].Spec.Replicas = 1
	o.Pods = []*corev1.Pod{o.Pods[0], o.Pods[2]}
	first := o.Pods[0]
	opened(first, "g2-gang", map[string]string{"z": "z", "r": "a"})
	first.Spec.NodeName = "a0"
	first.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Time{Time: begin}}}
	p := &opening{b: b}
	b.s.objects.reader, b.s.providers = graphs{"g2": o}, provider.New(provider.Options{}, provider.All{Placers: []provider.Placer{p}})
	b.s.podSet(nil, first)
	r := (&assignment.Record{}).Clone()
	for _, component := range []string{"alpha", "omega"} {
		r.Assign("g2-gang", gang.Key{Component: component}, topology.Path{"z", "a"}, nil, begin)
	}
	r.Begins("g2-gang")
	change(r)
	if err := b.s.placements.write(t.Context(), o.DGD, recorded{}, r); err != nil {
		t.Fatal(err)
	}
	return b, p, o
}

// bindsAll has all gangs of a record bound.
func bindsAll(r *assignment.Record) {
	shown := map[gang.Key]assignment.Shown{}
	for _, g := range r.Gangs {
		for key := range g.Places {
			shown[key] = assignment.Shown{State: assignment.AllBound, Domain: topology.Path{"z", "a"}}
		}
	}
	r.Follow(shown, func(gang.Key) bool { return true }, func(string) bool { return false }, begin)
}

// An operator that released or created a base gang is gone with a part of it. The rest is released with that part, or all of it is evicted.
func TestABaseGangThatWasCreatedInPart(t *testing.T) {
	unchanged := func(*assignment.Record) {}
	for name, tc := range map[string]struct {
		record   func(*assignment.Record)
		change   func(b *bench, o *gang.Observation)
		evicted  bool
		released bool
	}{
		"no capacity":       {unchanged, func(*bench, *gang.Observation) {}, true, false},
		"there is capacity": {unchanged, func(b *bench, _ *gang.Observation) { b.freed("a1") }, false, true},
		"a component that was added is released": {unchanged, func(b *bench, o *gang.Observation) {
			o.Groups, o.Pods = withZeta(o, func(*trellisv1alpha1.ScalingGroup) {})
			zeta := o.Pods[2]
			opened(zeta, "g2-later", map[string]string{"z": "z", "r": "a"})
			zeta.Spec.NodeName = "a1"
			b.s.podSet(nil, zeta)
		}, true, false},
		"a component is added": {unchanged, func(_ *bench, o *gang.Observation) {
			o.Groups, o.Pods = withZeta(o, func(*trellisv1alpha1.ScalingGroup) {})
		}, true, false},
		"all of it was bound": {bindsAll, func(*bench, *gang.Observation) {}, false, false},
		"all of it was bound, and its pod is lost since": {unchanged, func(_ *bench, o *gang.Observation) {
			lost := o.Pods[1].DeepCopy()
			opened(lost, "g2-gang", map[string]string{"z": "z", "r": "a"})
			lost.Spec.NodeName, lost.Status.Phase = "a1", corev1.PodFailed
			o.Pods = append(slices.Clone(o.Pods[:1]), lost)
		}, false, false},
		"the gang is of other replicas": {func(r *assignment.Record) {
			delete(r.Gangs["g2-gang"].Places, gang.Key{Component: "omega"})
		}, func(*bench, *gang.Observation) {}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, p, o := inPart(t, tc.record)
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
				if got := !render.GateClosed(rest) && !gang.Leaving(rest); got != tc.released || got && rest.Annotations[render.AnnotationGang] != "g2-gang" {
					t.Errorf("released: %v, of gang %s", got, rest.Annotations[render.AnnotationGang])
				}
			})
		})
	}
}

// The rest of a base gang that another operator has begun in place is created as recorded, or in its domain and at another attempt.
func TestTheRestOfABaseGangIsCreatedWithIt(t *testing.T) {
	for name, tc := range map[string]struct {
		taken []string
		want  string
	}{"as recorded": {nil, "1 pods in a"}, "its host is taken": {[]string{"a1"}, "1 pods in a (2.)"}} {
		t.Run(name, func(t *testing.T) {
			w, o := newCreating(t), ofTwoComponents()
			o.Groups[0].Spec.Replicas = 1
			o.Pods = nil
			w.ask(o.Groups...)
			w.look(o)
			base := w.records["g2"].BaseGang()
			if len(w.records["g2"].Gangs[base].Places) != 2 {
				t.Fatalf("recorded: %v", recordedAs(w.records["g2"]))
			}
			o.Pods = w.create(o.Groups[0])
			next := newCreating(t)
			next.records = w.records
			next.look(o)
			next.pass(createWithin) // the former operator may create it until then
			for _, host := range []string{"a2", "c0", "c1"} {
				next.host(host, host[:1], 1)
			}
			next.taken(tc.taken...)
			next.s.objects.reader = withGroup{graphs{"g2": o}, o.Groups[1]}
			next.s.podSet(nil, o.Pods[0])
			next.ask(o.Groups[1])
			next.look(o)
			if diff := cmp.Diff(map[string]string{"omega-0": tc.want}, next.ask(o.Groups[1])); diff != "" {
				t.Errorf("answer (-want +got):\n%s", diff)
			}
			if of := next.records["g2"].GangOf(gang.Key{Component: "omega"}); of != base {
				t.Errorf("it is of gang %s, recorded are %v", of, recordedAs(next.records["g2"]))
			}
		})
	}
}
