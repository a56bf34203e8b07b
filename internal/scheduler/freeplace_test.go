// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/trellis-k8s/trellis/internal/assignment"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/leaving"
	"github.com/trellis-k8s/trellis/internal/render"
)

// freeing is a bench on which hosts a0 and b0 are in use, and replicas may move so that the graph g5 gets a rack.
type freeing struct {
	*bench
	big     gang.Observation
	movable []gang.Observation
}

func newFreeing(t testing.TB, after time.Duration) *freeing {
	return newFreeingWithin(t, after, 0)
}

// newFreeingWithin is the same with a limit of the GPUs that restart for a gang.
func newFreeingWithin(t testing.TB, after time.Duration, most int64) *freeing {
	b := newBench(t, Options{RepackAfter: after, RepackMaxGPUs: most, ReserveDomainFor: 10 * time.Minute})
	b.s.ledger.followed = func(*corev1.Pod) (types.NamespacedName, bool) { return types.NamespacedName{}, false }
	b.taken("b0")
	return &freeing{bench: b, big: asking(5, 2, 0)}
}

// runs has a graph with one pod run on a host since some time. Its replica may move to any rack of the zone.
func (f *freeing) runs(number int, host string, since time.Duration) *corev1.Pod {
	o := asking(number, 1, 0)
	o.DGD.Annotations = map[string]string{render.AnnotationMayMove: "true"}
	o.Groups[0].Spec.Topology = frozen("zone", "")
	o.Groups[0].Spec.Roles[0].Template.Spec = withGPU(&corev1.Pod{}).Spec
	pod := withGPU(newPod(o.Groups[0], 0, 0, "z", host[:1]))
	pod.Spec.NodeName, pod.CreationTimestamp = host, metav1.NewTime(f.clock.Now().Add(-since))
	o.Pods = []*corev1.Pod{pod}
	f.movable = append(f.movable, o)
	f.s.ledger.podChanged(pod)
	return pod
}

// succeeds places the successor of the first replica that may move, which has to go to a host.
func (f *freeing) succeeds(host string) {
	f.t.Helper()
	o := f.movable[0]
	o.Groups[0].Spec.Replicas = 2
	o.Pods = append(slices.Clone(o.Pods), withGPU(newPod(o.Groups[0], 1, 0)))
	if d := f.decide(o); len(d.releases) != 1 || d.releases[0].Pin.Node != host {
		f.t.Errorf("the successor is released %d times, or not to %s: %v", len(d.releases), host, d.result.Waiting)
	}
}

// gone ends a pod that has moved.
func (f *freeing) gone(pod *corev1.Pod) {
	f.s.ledger.podGone(pod)
	for i := range f.movable {
		f.movable[i].Pods = slices.DeleteFunc(f.movable[i].Pods, func(one *corev1.Pod) bool { return one.UID == pod.UID })
	}
}

// step is what the loop does about moves, in words.
func (f *freeing) step() string {
	f.t.Helper()
	due, _ := f.s.ledger.movesDue()
	if !due {
		return "nothing"
	}
	step := f.s.ledger.decideMoves(f.movable)
	var said []string
	for verb, list := range map[string][]*moveRequest{"request": step.request, "renew": step.renew, "withdraw": step.withdraw} {
		for _, one := range list {
			said = append(said, verb+" "+one.pod.Name)
		}
	}
	slices.Sort(said)
	for _, e := range step.events {
		said = append(said, e.reason+": "+e.note)
	}
	return strings.Join(said, "; ")
}

func (f *freeing) steps(what, want string) {
	f.t.Helper()
	if got := f.step(); got != want {
		f.t.Errorf("%s: %q, want %q", what, got, want)
	}
}

// A gang waits while a half of each rack is free. After its time a replica moves, its successor and others stay off the hosts, and the
// gang gets them.
func TestReplicaMovesForAGang(t *testing.T) {
	f := newFreeing(t, time.Minute)
	pod := f.runs(1, "a0", 2*time.Hour)
	f.expect("no rack is free", f.big, "holds 1 of 2")
	f.steps("before the time", "nothing")
	f.pass(time.Minute)
	f.steps("after the time", "request g1-work-0; Repacking: 1 replica with 1 GPU moves so that it gets 2 hosts in z/a")
	f.expect("meanwhile", f.big, "; 2 hosts in z/a are reserved for it until 03:11 UTC, and 1 replica with 1 GPU moves to free them")
	f.steps("meanwhile", "nothing")
	f.expect("an older graph", asking(2, 1, 0), "rack b")
	f.s.ledger.cluster.Forget("g2-work-0")

	f.succeeds("b1")
	f.gone(pod)
	f.steps("the replica has moved", "")
	f.expect("the rack is free", f.big, "rack a")
	f.steps("the gang has its place", "")
	f.steps("after that", "nothing")
	if f.s.ledger.reserver.current != nil {
		t.Error("the hosts are still reserved")
	}
}

// For a graph that is placed together in one zone, the rack in it is freed that its gang needs.
func TestReplicaMovesForABaseGang(t *testing.T) {
	f := newFreeing(t, time.Minute)
	f.big.Groups[0].Spec.Topology = frozen("zone", "rack")
	f.runs(1, "a0", 2*time.Hour)
	f.ask(f.big)
	f.pass(time.Minute)
	f.steps("after the time", "request g1-work-0; Repacking: 1 replica with 1 GPU moves so that it gets 2 hosts in z/a")
}

// A successor stays off the hosts also where its component has to be in the rack that is freed.
func TestSuccessorStaysOffFreedHosts(t *testing.T) {
	f := newFreeing(t, time.Minute)
	f.taken("b1")
	other := hostOf("a2", "a", 1)
	other.Labels["pool"] = "q"
	f.s.ledger.cluster.SetNode(other)
	for _, pod := range f.big.Pods {
		pod.Spec.NodeSelector = map[string]string{"pool": "p"}
	}
	f.runs(1, "a0", 2*time.Hour)
	f.movable[0].Groups[0].Spec.Topology = frozen("", "rack")
	f.ask(f.big)
	f.pass(time.Minute)
	f.steps("after the time", "request g1-work-0; Repacking: 1 replica with 1 GPU moves so that it gets 2 hosts in z/a")
	f.succeeds("a2")
}

// Without being asked, and with replicas that may not move, none does.
func TestNoReplicaMovesForAGang(t *testing.T) {
	for name, change := range map[string]func(f *freeing) time.Duration{
		"it is off":            func(f *freeing) time.Duration { f.s.ledger.freer.after = 0; return 2 * time.Hour },
		"it moved an hour ago": func(_ *freeing) time.Duration { return time.Hour - time.Minute - time.Second },
		"it is being updated":  func(f *freeing) time.Duration { f.movable[0].Groups[0].Spec.Revision = "2"; return 2 * time.Hour },
		"its eviction was requested": func(f *freeing) time.Duration {
			f.movable[0].Pods[0].Annotations[leaving.AnnotationEviction] = leaving.Eviction{At: f.clock.Now()}.String()
			return 2 * time.Hour
		},
		"another provider places it": func(f *freeing) time.Duration { f.movable[0].Groups[0].Spec.Provider = "KAI"; return 2 * time.Hour },
		"it is more important":       func(f *freeing) time.Duration { *f.movable[0].Pods[0].Spec.Priority = 1; return 2 * time.Hour },
		"no other rack has space":    func(f *freeing) time.Duration { f.taken("b1"); return 2 * time.Hour },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFreeing(t, time.Minute)
			pod := f.runs(1, "a0", 0)
			priority := int32(0)
			pod.Spec.Priority = &priority
			age := change(f)
			pod.CreationTimestamp = metav1.NewTime(begin.Add(-age))
			f.ask(f.big)
			f.pass(time.Minute)
			if got := f.step(); got != "" && got != "nothing" {
				t.Errorf("it does: %s", got)
			}
			if f.s.ledger.reserver.current != nil {
				t.Error("hosts are reserved")
			}
		})
	}
}

// TestMovedReplicaRests: a replica that moved for one gang does not move for another one within an hour.
func TestMovedReplicaRests(t *testing.T) {
	f := newFreeing(t, time.Minute)
	pod := f.runs(1, "a0", 2*time.Hour)
	f.ask(f.big)
	f.pass(time.Minute)
	f.steps("the first gang", "request g1-work-0; Repacking: 1 replica with 1 GPU moves so that it gets 2 hosts in z/a")
	f.gone(pod)
	f.movable = nil
	f.freed("b0")
	f.runs(1, "b0", 0)
	f.taken("a0") // unplanned: the gang does not get its rack
	f.ask(f.big)
	f.steps("the first gang again", "")
	f.pass(placedWithin)
	f.steps("the first gang again", "RepackEnded: no further replica moves for it: it does not fit although all moves are done")
	f.freed("a0")
	f.taken("a1")
	for minutes := range 58 {
		f.ask(f.big)
		if got := f.step(); strings.Contains(got, "request") {
			t.Fatalf("after %d minutes it moves back: %s", minutes+1, got)
		}
		f.pass(time.Minute)
	}
	f.pass(2 * time.Minute)
	f.ask(f.big)
	f.steps("after an hour", "request g1-work-0; Repacking: 1 replica with 1 GPU moves so that it gets 2 hosts in z/b")
}

// TestMovesEnd: requests are renewed while a move is under way, and end with it, when it takes too long, and when the gang does not wait.
func TestMovesEnd(t *testing.T) {
	f := newFreeing(t, time.Minute)
	f.runs(1, "a0", 2*time.Hour)
	f.ask(f.big)
	f.pass(time.Minute)
	f.step()
	for range 7 {
		f.pass(renewAfter)
		f.steps("under way", "renew g1-work-0")
	}
	f.pass(2 * time.Minute)
	f.steps("too long", "withdraw g1-work-0; RepackEnded: no further replica moves for it: the hosts are not reserved for it any more")
	f.steps("ended", "nothing")

	f = newFreeing(t, time.Minute)
	f.runs(1, "a0", 2*time.Hour)
	f.ask(f.big)
	f.pass(time.Minute)
	f.step()
	f.s.forgetGraph(types.NamespacedName{Namespace: "ns", Name: "g5"})
	f.steps("the graph is deleted", "withdraw g1-work-0")
}

// requested returns a pod whose replica is to move for a graph.
func requested(pod *corev1.Pod, at time.Time, graph string) *corev1.Pod {
	pod = pod.DeepCopy()
	metav1.SetMetaDataAnnotation(&pod.ObjectMeta, leaving.AnnotationEviction, leaving.Eviction{At: at, For: graph}.String())
	return pod
}

// TestResumedMoves: a new leader continues the recorded moves of an earlier one, whether their request was written or not. It places the
// successor as the earlier leader would have, also before it has planned the waiting graph.
func TestResumedMoves(t *testing.T) {
	former := newFreeing(t, time.Minute)
	former.runs(1, "a0", 2*time.Hour)
	former.big.Record = &assignment.Record{}
	former.ask(former.big)
	former.pass(time.Minute)
	former.step()
	former.ask(former.big)
	former.pass(recordAfter)
	d := former.decide(former.big)
	if d.record == nil || d.record.Freed == nil {
		t.Fatalf("the hosts are not recorded: %v", d.record)
	}
	for _, written := range []bool{true, false} {
		t.Run(fmt.Sprint("request written: ", written), func(t *testing.T) {
			f := newFreeing(t, 0)
			f.clock.Step(former.clock.Since(f.clock.Now()))
			pod := f.runs(1, "a0", 2*time.Hour)
			f.big.Record = d.record
			f.taken("b1") // but for the reservation, the successor would go to a1
			f.host("c0", "c", 1)
			f.s.ledger.freer.resume(f.big)
			if written {
				f.s.ledger.podChanged(requested(pod, f.clock.Now(), "ns/g5"))
				f.steps("before the graph is planned", "")
				f.succeeds("c0")
			} else {
				f.steps("before the graph is planned", "")
			}
			f.expect("meanwhile", f.big, "; 2 hosts in z/a are reserved for it until 03:11 UTC, and 1 replica with 1 GPU moves to free them")
			if !written {
				f.steps("the graph is planned", "request g1-work-0")
				f.succeeds("c0")
			}
			f.gone(pod)
			f.steps("the replica has moved", "")
			f.expect("the rack is free", f.big, "rack a")
			if d := f.decide(f.big); d.record != nil && d.record.Freed != nil {
				t.Errorf("hosts are still recorded: %v", d.record.Freed)
			}
		})
	}

	f := newFreeing(t, 0)
	f.clock.Step(former.clock.Since(f.clock.Now()))
	f.big.Record = d.record
	f.s.ledger.freer.resume(f.big)
	f.pass(adoptWithin)
	f.steps("a graph that does not wait any more", "")
	if f.s.ledger.reserver.current != nil {
		t.Error("hosts are still reserved for it")
	}
	for name, edit := range map[string]func(*assignment.Freed){
		"after the recorded end":   func(r *assignment.Freed) { r.Until = f.clock.Now() },
		"more than the graph uses": func(r *assignment.Freed) { r.Hosts = []string{"a0", "a1", "b1"} },
		"for longer than they are": func(r *assignment.Freed) { r.Until = f.clock.Now().Add(24 * time.Hour) },
	} {
		f, freed := newFreeing(t, 0), *d.record.Freed
		edit(&freed)
		f.clock.Step(former.clock.Since(f.clock.Now()))
		f.big.Record = &assignment.Record{Freed: &freed}
		f.s.ledger.freer.resume(f.big)
		if r := f.s.ledger.reserver.current; r != nil && (len(r.nodes) > 2 || r.until.After(f.clock.Now().Add(10*time.Minute))) {
			t.Errorf("%s: hosts are reserved: %v until %s", name, r.nodes, r.until)
		}
	}
}

// TestRequestedMoves: requests of a user are taken over, one gang at a time.
func TestRequestedMoves(t *testing.T) {
	f := newFreeing(t, 0)
	pod := f.runs(1, "a0", 2*time.Hour)
	f.ask(f.big)
	f.s.ledger.podChanged(requested(pod, f.clock.Now(), "ns/g5"))
	f.steps("of a graph that waits", "Repacking: 1 replica with 1 GPU moves so that it gets 2 hosts in z/a")
	f.expect("meanwhile", f.big, "1 replica with 1 GPU moves to free them")
	other := f.runs(2, "b1", 2*time.Hour)
	f.s.ledger.podChanged(requested(other, f.clock.Now(), "ns/g6"))
	f.steps("of another graph", "withdraw g2-work-0")
	f.s.ledger.podChanged(other)

	for name, c := range map[string]struct {
		at, graph string
		want      string
	}{
		"of a graph that does not wait": {graph: "ns/g7", want: "withdraw g1-work-0"},
		"that frees nothing":            {at: "b1", graph: "ns/g5", want: "withdraw g1-work-0; RepackEnded: no further replica moves for it: the replica that was requested to move does not free a place"},
	} {
		f := newFreeing(t, 0)
		pod := f.runs(1, "a0", 2*time.Hour)
		if c.at != "" {
			f.taken("b1")
		}
		f.ask(f.big)
		f.s.ledger.podChanged(requested(pod, f.clock.Now(), c.graph))
		got := f.step()
		if got == "" {
			f.pass(adoptWithin)
			got = f.step()
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		f.s.ledger.podChanged(pod)
		f.steps(fmt.Sprint(name, ", ended"), "nothing")
	}
}

// TestRequestedMovesWithinALimit: no more GPUs restart for a gang than the operator and the request allow, whichever is less.
func TestRequestedMovesWithinALimit(t *testing.T) {
	for name, c := range map[string]struct {
		operator, request int64
		want              string
	}{
		"none":               {want: "Repacking: 2 replicas with 2 GPUs move so that it gets 2 hosts in z/a"},
		"enough":             {operator: 2, request: 2, want: "Repacking: 2 replicas with 2 GPUs move so that it gets 2 hosts in z/a"},
		"of the operator":    {operator: 1, want: "withdraw g1-work-0; RepackEnded: no further replica moves for it: 2 GPUs would restart, and at most 1 may"},
		"of the request":     {request: 1, want: "withdraw g1-work-0; RepackEnded: no further replica moves for it: 2 GPUs would restart, and at most 1 may"},
		"of the two, by one": {operator: 3, request: 1, want: "withdraw g1-work-0; RepackEnded: no further replica moves for it: 2 GPUs would restart, and at most 1 may"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFreeingWithin(t, 0, c.operator)
			f.taken("b1")
			f.host("c0", "c", 1)
			f.host("d0", "d", 1)
			pod := f.runs(1, "a0", 2*time.Hour).DeepCopy()
			f.runs(2, "a1", 2*time.Hour)
			f.ask(f.big)
			request := leaving.Eviction{At: f.clock.Now(), For: "ns/g5", MaxGPUs: c.request}
			metav1.SetMetaDataAnnotation(&pod.ObjectMeta, leaving.AnnotationEviction, request.String())
			f.s.ledger.podChanged(pod)
			f.steps("requested", c.want)
		})
	}
}
