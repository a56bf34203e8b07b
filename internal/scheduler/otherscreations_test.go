// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/trellis-k8s/trellis/internal/assignment"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/provider"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/topology"
)

var work0, work1 = gang.Key{Component: "work"}, gang.Key{Component: "work", Ordinal: 1}

// twoInARack is a graph with a single-node component of two replicas, which share a rack.
func twoInARack() gang.Observation {
	o := asking(2, 1, 0)
	o.Groups[0].Spec.Replicas = 2
	o.Pods = append(o.Pods, withGPU(newPod(o.Groups[0], 1, 0)))
	o.Record = (&assignment.Record{}).Clone()
	return o
}

// inRackB records places of another operator, each in a gang of its own.
func inRackB(r *assignment.Record, key gang.Key, host string, attempt int32) {
	r.Assign("theirs-"+host, key, topology.Path{"z", "b"}, []string{host}, begin)
	r.Raise(key, attempt)
}

// Another operator has placed a component again, in a rack in which this one finds no capacity. Earlier releases of this operator split
// neither the component nor its record.
func TestAComponentThatAnotherOperatorPlacedAgain(t *testing.T) {
	for title, tc := range map[string]struct {
		change func(b *bench, o *gang.Observation)
		want   []string
	}{
		"its release is under way": {func(b *bench, o *gang.Observation) {
			first := *o
			first.Pods = o.Pods[:1]
			b.decide(first)
		}, []string{"Assigned work-0: 3. in z/a a0", "Assigned work-1: 2. in z/a a1"}},
		"its pod is to be deleted": {func(_ *bench, o *gang.Observation) {
			opened(o.Pods[0], "mine", map[string]string{"z": "z", "r": "a"})
			o.Pods[0].Annotations[render.AnnotationAttempt] = "1"
		}, nil},
	} {
		t.Run(title, func(t *testing.T) {
			b, o := newBench(t, Options{}), twoInARack()
			b.taken("b0", "b1")
			tc.change(b, &o)
			inRackB(o.Record, work0, "b0", 2)
			inRackB(o.Record, work1, "b1", 1)
			d := b.decide(o)
			if diff := cmp.Diff(tc.want, recordedAs(d.record)); diff != "" || len(d.releases) != len(tc.want) {
				t.Errorf("%d releases, record (-want +got):\n%s", len(d.releases), diff)
			}
			b.clock.Step(createWithin)
			if d = b.decide(o); tc.want == nil && len(d.releases) != 1 {
				t.Errorf("%d releases after a while, of the other operator nothing came", len(d.releases))
			}
		})
	}
}

// A recorded place that another operator has released a pod to, which the cache does not show yet, is neither given up nor replaced.
func TestAPlaceThatAnotherOperatorReleasedIsKept(t *testing.T) {
	for title, tc := range map[string]struct {
		theirs func(r *assignment.Record, own string)
		kept   gang.Key
	}{
		"placed again in a gang of this name": {func(r *assignment.Record, own string) {
			r.Assign(own, work0, topology.Path{"z", "b"}, []string{"b0"}, begin)
		}, work0},
		"given up": {func(r *assignment.Record, _ string) {
			r.Assign("mine", work0, topology.Path{"z", "a"}, []string{"a0"}, begin)
			inRackB(r, work1, "b1", 1)
		}, work1},
	} {
		t.Run(title, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, o := newBench(t, Options{}), twoInARack()
				own := newBench(t, Options{}).decide(o).record.GangOf(work0)
				b.taken("b0", "b1")
				r, theirs := newRecordStore(t, b), (&assignment.Record{}).Clone()
				tc.theirs(theirs, own)
				if err := b.s.placements.write(t.Context(), o.DGD, recorded{}, theirs); err != nil {
					t.Fatal(err)
				}
				live := o.Pods[tc.kept.Ordinal].DeepCopy()
				opened(live, "theirs", map[string]string{"z": "z", "r": "b"})
				if err := r.Create(t.Context(), live); err != nil {
					t.Fatal(err)
				}
				p := &opening{b: b}
				b.s.objects.reader, b.s.providers = graphs{"g2": o}, provider.New(provider.Options{}, provider.All{Placers: []provider.Placer{p}})
				b.s.queue.add(clientKey(o))
				b.settle()
				b.clock.Step(recordAfter)
				b.settle()
				if diff := cmp.Diff(recordedAs(theirs), recordedAs(recordIn(t, r, o))); diff != "" {
					t.Errorf("record (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// A recorded place without pods is given up only when a read past the cache shows none either.
func TestAPlaceIsGivenUpByAReadPastTheCache(t *testing.T) {
	for title, tc := range map[string]struct {
		exists bool
		want   string
	}{"pods exist": {true, "Assigned work-0: 1. in z/a a0+a1"}, "no pod exists": {false, "former work-0: 1. in z/a"}} {
		t.Run(title, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, o := newBench(t, Options{}), theirs("a")
				r, pods := newRecordStore(t, b), o.Pods
				o.Pods = nil
				if err := b.s.placements.write(t.Context(), o.DGD, recorded{}, o.Record); err != nil {
					t.Fatal(err)
				}
				if tc.exists {
					opened(pods[0], "theirs", map[string]string{"z": "z", "r": "a"})
					if err := r.Create(t.Context(), pods[0]); err != nil {
						t.Fatal(err)
					}
				}
				b.s.objects.reader = graphs{"g2": o}
				b.s.queue.add(clientKey(o))
				for _, after := range []time.Duration{0, createWithin, recordAfter} {
					b.pass(after)
					b.settle()
				}
				if diff := cmp.Diff([]string{tc.want}, recordedAs(recordIn(t, r, o))); diff != "" {
					t.Errorf("record (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// theirs returns a graph of two pods. Another operator has recorded their hosts in a rack.
func theirs(rack string) gang.Observation {
	o := asking(2, 2, 0)
	for i := range o.Groups[0].Spec.Roles {
		o.Groups[0].Spec.Roles[i].Template.Spec = o.Pods[0].Spec
		o.Groups[0].Spec.Roles[i].Template.Spec.SchedulingGates = nil
	}
	o.Record = (&assignment.Record{}).Clone()
	o.Record.Assign("theirs", work0, topology.Path{"z", rack}, []string{rack + "0", rack + "1"}, begin)
	return o
}

// No other graph gets the hosts on which another operator creates a gang, before or after its pods appear. If they do not appear, the hosts
// become free.
func TestHostsOfAGangThatAnotherOperatorCreates(t *testing.T) {
	missing := theirs("a")
	missing.Pods = nil
	for title, tc := range map[string]struct {
		then func(b *bench)
		want string
	}{
		"at once":                {func(*bench) {}, "rack b"},
		"its pods do not appear": {func(b *bench) { b.pass(createWithin) }, "rack a"},
		"a pod appears and is gone": {func(b *bench) {
			pod := theirs("a").Pods[0]
			opened(pod, "theirs", map[string]string{"z": "z", "r": "a"})
			b.s.podSet(nil, pod)
			b.s.podGone(pod)
			b.pass(createWithin)
		}, "rack a"},
		"its pods appear": {func(b *bench) {
			for i, pod := range theirs("a").Pods {
				opened(pod, "theirs", map[string]string{"z": "z", "r": "a"})
				pod.Spec.Affinity = onlyOn([]string{"a0", "a1"}[i])
				b.s.podSet(nil, pod)
			}
			b.pass(createWithin)
		}, "rack b"},
	} {
		t.Run(title, func(t *testing.T) {
			b := newBench(t, Options{HoldFor: time.Minute})
			b.s.objects.reader = graphs{"g2": missing}
			b.decide(missing)
			tc.then(b)
			if got := b.ask(asking(1, 2, 0)); got != tc.want {
				t.Errorf("another graph goes to %q, want %q", got, tc.want)
			}
		})
	}
}

// The hold of a pod ends when another operator's pod of that name appears: its host is counted once.
func TestHoldEndsWhenItsPodAppears(t *testing.T) {
	b := newBench(t, Options{HoldFor: time.Minute})
	b.host("a0", "a", 2)
	o := theirs("a")
	pods := o.Pods
	o.Pods = nil
	b.s.objects.reader = graphs{"g2": o}
	b.decide(o)
	opened(pods[0], "theirs", map[string]string{"z": "z", "r": "a"})
	pods[0].Spec.Affinity = onlyOn("a0")
	b.s.podSet(nil, pods[0])
	b.taken("b0", "b1")
	b.expect("the second GPU of the host is free", asking(1, 1, 0), "rack a")
}
