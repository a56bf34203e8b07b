// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-k8s/trellis/internal/gang"
)

// A namespace that did not use its reservation gives others a turn for as long again.
func TestDomainReservationRestsPerNamespace(t *testing.T) {
	b := newBench(t, Options{ReserveDomainAfter: time.Minute, ReserveDomainFor: 10 * time.Minute, ReserveShare: 0.5})
	b.taken("a0", "b0")
	b.ask(asking(5, 2, 0))
	b.ask(asking(6, 2, 0))
	b.pass(time.Minute)
	b.expect("the first", asking(5, 2, 0), "are reserved for it")
	b.pass(10 * time.Minute)
	for _, number := range []int{5, 6} {
		b.notReserved("at rest", asking(number, 2, 0))
	}
	b.pass(9 * time.Minute)
	b.notReserved("still at rest", asking(6, 2, 0))
	b.pass(time.Minute)
	b.expect("rested", asking(5, 2, 0), "are reserved for it")
}

// A gang of higher priority ends the turn of a lower one, and a lower one waits for its turn.
func TestDomainReservationGoesByPriority(t *testing.T) {
	b := newBench(t, Options{ReserveDomainAfter: time.Minute, ReserveDomainFor: 10 * time.Minute, ReserveShare: 0.5})
	never := func(o gang.Observation) gang.Observation {
		policy := corev1.PreemptNever
		for _, pod := range o.Pods {
			pod.Spec.PreemptionPolicy = &policy
		}
		return o
	}
	low, high := asking(5, 2, 0), never(of("team-b", asking(6, 2, 10)))
	b.taken("a0", "b0")
	b.ask(low)
	b.pass(time.Minute)
	b.expect("alone in line", low, "are reserved for it")
	b.ask(high)
	b.pass(time.Minute)
	b.notReserved("the low one in the next line", of("team-c", asking(7, 2, 0)))
	b.expect("the high one", high, "are reserved for it")
	b.s.queue.take(b.clock.Now())
	b.notReserved("the low one", low)
	if due, _ := b.s.queue.take(b.clock.Now()); slices.Contains(due, client.ObjectKeyFromObject(high.DGD)) {
		t.Error("the one that has its turn is looked at again and again")
	}
}

// For a gang that one host alone can ever hold that host is reserved, and no other of its large domain; for a gang that needs more hosts than
// may be reserved none is, and the message reports it.
func TestReservesOnlyWhatTheGangCanUse(t *testing.T) {
	region := func(o gang.Observation) gang.Observation {
		for _, sg := range o.Groups {
			sg.Spec.Topology = frozen("", "zone")
		}
		return o
	}
	picky := func(number int) gang.Observation {
		o := region(asking(number, 1, 0))
		o.Pods[0].Spec.NodeSelector = map[string]string{corev1.LabelHostname: "a0"}
		return o
	}
	b := newBench(t, Options{ReserveDomainAfter: time.Minute, ReserveDomainFor: 10 * time.Minute})
	for i := range 20 {
		b.host(fmt.Sprintf("c%02d", i), "c", 1)
	}
	b.taken("a0")
	b.ask(picky(5))
	b.pass(time.Minute)
	b.expect("the picky one", picky(5), "; 1 host in z is reserved for it until")
	if diff := cmp.Diff([]string{"a0"}, b.s.ledger.reserver.current.nodes); diff != "" {
		t.Errorf("reserved hosts (-want +got):\n%s", diff)
	}
	b.freed("a0")
	b.expect("a newcomer that needs all hosts", region(asking(6, 24, 0)), "1 host reserved for ns/g5")
	b.expect("a newcomer that needs all others", region(asking(7, 23, 0)), "rack")

	b = newBench(t, Options{ReserveDomainAfter: time.Minute, ReserveDomainFor: 10 * time.Minute, ReserveShare: 0.5})
	b.taken("a0", "b0")
	b.ask(region(asking(5, 3, 0)))
	b.pass(time.Minute)
	b.expect("one that needs too many", region(asking(5, 3, 0)), "; no hosts are reserved for it, because it needs 3 and at most 2 may be reserved")
	b.ask(asking(6, 2, 0))
	b.pass(time.Minute)
	b.s.queue.take(b.clock.Now())
	b.expect("the first says so still", region(asking(5, 3, 0)), "no hosts are reserved for it")
	if due, _ := b.s.queue.take(b.clock.Now()); !slices.Contains(due, client.ObjectKeyFromObject(asking(6, 2, 0).DGD)) {
		t.Errorf("to be looked at are %v, want the next one in line", due)
	}
	b.expect("the next one in line", asking(6, 2, 0), "2 hosts in z/a are reserved for it")
}

// The reserved hosts are those that will do soonest: when others of the domain become free first, those are reserved.
func TestReservedHostsFollowWhatBecomesFree(t *testing.T) {
	b := newBench(t, Options{ReserveDomainAfter: time.Minute, ReserveDomainFor: 10 * time.Minute, ReserveShare: 0.5})
	b.host("a2", "a", 1)
	b.host("a3", "a", 1)
	b.taken("a0", "a1", "a2", "a3", "b0", "b1")
	b.ask(asking(5, 2, 0))
	b.pass(time.Minute)
	b.expect("reserved", asking(5, 2, 0), "2 hosts in z/a are reserved for it")
	b.freed("a3")
	b.ask(asking(5, 2, 0))
	if !slices.Contains(b.s.ledger.reserver.current.nodes, "a3") || len(b.s.ledger.reserver.current.nodes) != 2 {
		t.Errorf("reserved are %v, want two with the free a3", b.s.ledger.reserver.current.nodes)
	}
	b.expect("a newcomer", asking(6, 1, 0), "reserved for ns/g5")
	b.freed("a2")
	b.expect("the gang", asking(5, 2, 0), "rack a")
}
