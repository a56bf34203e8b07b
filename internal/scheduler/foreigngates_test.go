// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/quota"
	"github.com/trellis-k8s/trellis/internal/render"
)

// unadmitted is a graph whose pods another controller holds, too.
func unadmitted(number int, pods int32) gang.Observation {
	o := asking(number, pods, 0)
	for _, pod := range o.Pods {
		pod.Spec.SchedulingGates = append(pod.Spec.SchedulingGates, corev1.PodSchedulingGate{Name: "example.com/quota"})
	}
	return o
}

// admit removes the gates of others from some pods, with what it adds to them.
func admit(pods []*corev1.Pod, adds func(*corev1.Pod)) {
	for _, pod := range pods {
		pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: render.PlacementGate}}
		if adds != nil {
			adds(pod)
		}
	}
}

// taint adds a taint to a host of [bench.host].
func (b *bench) taint(host, key string) {
	node := hostOf(host, host[:1], 1)
	node.Spec.Taints = []corev1.Taint{{Key: key, Effect: corev1.TaintEffectNoSchedule}}
	b.s.ledger.cluster.SetNode(node)
}

// A gang is planned when no pod of it has a scheduling gate of another controller. Until then it has no capacity, and others may have all of it.
func TestForeignGatesComeFirst(t *testing.T) {
	b := newBench(t, Options{})
	o := unadmitted(1, 2)
	const held = `waits for admission: another controller has to remove the scheduling gate "example.com/quota" from pod `
	for _, step := range []struct {
		admitted int
		want     string
	}{{0, held + "g1-work-0-0"}, {1, held + "g1-work-0-1"}} {
		admit(o.Pods[:step.admitted], nil)
		d := b.decide(o)
		if len(d.result.Waiting) != 1 || d.result.Waiting[0].Code != gang.CodeWaitingForAdmission || d.result.Waiting[0].Message != step.want {
			t.Errorf("%d pods admitted: waiting %v, want %s", step.admitted, d.result.Waiting, step.want)
		}
		if len(d.releases) > 0 || b.reserved(o) > 0 {
			t.Errorf("%d pods admitted: %d are released, %d have capacity", step.admitted, len(d.releases), b.reserved(o))
		}
	}
	b.expect("one that came later", asking(2, 2, 0), "rack a")
	admit(o.Pods, nil)
	b.expect("the admitted one", o, "rack b")
}

// What is added to pods with their admission holds, also where it rules out what the graph would have chosen, or all of it.
func TestWhatAdmissionAddsHolds(t *testing.T) {
	for name, tc := range map[string]struct {
		add  func(*corev1.Pod)
		want string
	}{
		"nothing":         {nil, "rack a"},
		"a node selector": {func(pod *corev1.Pod) { pod.Spec.NodeSelector = map[string]string{"r": "b"} }, "rack b"},
		"a toleration": {func(pod *corev1.Pod) {
			pod.Spec.NodeSelector = map[string]string{"r": "c"}
			pod.Spec.Tolerations = []corev1.Toleration{{Key: "flavor", Operator: corev1.TolerationOpExists}}
		}, "rack c"},
		"an affinity": {func(pod *corev1.Pod) {
			pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
					{Key: "r", Operator: corev1.NodeSelectorOpNotIn, Values: []string{"a"}},
				}}},
			}}}
		}, "rack b"},
		"what no host has": {func(pod *corev1.Pod) { pod.Spec.NodeSelector = map[string]string{"flavor": "spot"} },
			"hosts node selector mismatch"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, Options{})
			b.host("c0", "c", 1)
			b.host("c1", "c", 1)
			b.taint("c0", "flavor")
			b.taint("c1", "flavor")
			o := unadmitted(1, 2)
			b.decide(o)
			admit(o.Pods, tc.add)
			if got := b.ask(o); !strings.Contains(got, tc.want) {
				t.Errorf("%s, want %s", got, tc.want)
			}
		})
	}
}

// A graph that waits for admission alone is not looked at when capacity becomes free.
func TestFreedCapacityDoesNotConcernTheUnadmitted(t *testing.T) {
	b, all := full(t)
	for number, o := range []gang.Observation{unadmitted(0, 1), asking(1, 1, 0)} {
		all[o.DGD.Name] = o
		b.s.queue.add(clientKey(o))
		b.look()
		b.s.queue.take(b.clock.Now())
		if _, waits := b.s.queue.waitingFor(clientKey(o)); waits != (number == 1) {
			t.Errorf("graph %d waits for capacity: %v", number, waits)
		}
	}
	b.s.ledger.cluster.Freed()
	b.freed("a0")
	b.s.wakeFreed()
	if due, _ := b.s.queue.take(b.clock.Now()); len(due) != 1 || due[0].Name != "g1" {
		t.Errorf("to be looked at are %v, want g1", due)
	}
}

// A pod that is lost and recreated with a gate of another controller has no capacity held for it: who admits it decides who has that.
func TestCapacityHeldForTheUnadmitted(t *testing.T) {
	for name, c := range map[string]struct {
		gates []string
		held  bool
	}{
		"another controller's gate": {gates: []string{"example.com/quota"}},
		"Kueue's and another's":     {gates: []string{quota.Gate, "example.com/quota"}},
		"Kueue's: the quota stays":  {gates: []string{quota.Gate}, held: true},
		"Kueue's two":               {gates: []string{quota.Gate, "kueue.x-k8s.io/topology"}, held: true},
		"Kueue's for a topology":    {gates: []string{"kueue.x-k8s.io/topology"}},
	} {
		t.Run(name, func(t *testing.T) { testHeldForTheUnadmitted(t, c.gates, c.held) })
	}
}

func testHeldForTheUnadmitted(t *testing.T, gates []string, held bool) {
	b := newBench(t, Options{})
	o := asking(1, 1, 0)
	for _, gate := range gates {
		o.Pods[0].Spec.SchedulingGates = append(o.Pods[0].Spec.SchedulingGates, corev1.PodSchedulingGate{Name: gate})
	}
	lost := boundTo(asking(1, 1, 0).Pods[0], "a0")
	b.s.ledger.cluster.SetPod(lost)
	b.s.ledger.holds.begin(b.s.ledger.cluster, lost, "a0", clientKey(o), b.clock.Now())
	if !b.full(lost) {
		t.Fatal("no capacity is held")
	}
	if b.decide(o); b.full(lost) != held || b.s.ledger.holds.has(clientKey(o)) != held {
		t.Errorf("capacity is held: %v, want %v", b.s.ledger.holds.has(clientKey(o)), held)
	}
}

// holds adds a graph of one pod, created now, that another controller holds.
func (m measured) holds(number int) gang.Observation {
	o := unadmitted(number, 1)
	o.Pods[0].CreationTimestamp.Time, o.Pods[0].Spec.PriorityClassName = m.clock.Now(), "gold"
	m.all.graphs[o.DGD.Name] = o
	m.looks(o)
	return o
}

// The time until admission is no time that a gang waits for capacity.
func TestMetricsOfAdmission(t *testing.T) {
	m := measure(t, Options{})
	m.taken("a0", "a1", "b0", "b1")
	before := m.readings()
	o := m.holds(1)
	m.pass(gatherEvery)
	before = m.expect("waiting for admission", before, "trellis_gangs_waiting WaitingForAdmission: 1")

	m.pass(time.Hour)
	admit(o.Pods, nil)
	m.looks(o)
	m.pass(gatherEvery)
	before = m.expect("admitted", before, "trellis_gangs_waiting InsufficientCapacity: 1", "trellis_gangs_waiting WaitingForAdmission: -1", "trellis_graphs_waiting: 1",
		"trellis_longest_wait_seconds: 10", "trellis_replicas_refused_total InsufficientCapacity: 1")

	m.pass(20 * time.Second)
	m.freed("a0")
	m.looks(o)
	if got := m.readings()["trellis_time_to_placement_seconds gold"] - before["trellis_time_to_placement_seconds gold"]; got != 30 {
		t.Errorf("it waited %v seconds, want 30", got)
	}
}

// A gang that is placed as soon as it is admitted has not waited.
func TestAdmittedAndPlacedAtOnce(t *testing.T) {
	m := measure(t, Options{})
	before := m.readings()
	o := m.holds(1)
	m.pass(time.Hour)
	admit(o.Pods, nil)
	m.looks(o)
	after := m.readings()
	if n := after["trellis_time_to_placement_seconds gold n"] - before["trellis_time_to_placement_seconds gold n"]; n != 1 {
		t.Fatalf("%v gangs were placed", n)
	}
	if got := after["trellis_time_to_placement_seconds gold"] - before["trellis_time_to_placement_seconds gold"]; got != 0 {
		t.Errorf("it waited %v seconds, want 0", got)
	}
}

// An event describes what a pod waits for, and that this is no error.
func TestEventOfAdmission(t *testing.T) {
	b, all := full(t)
	o := unadmitted(1, 1)
	o.Pods[0].Labels[render.LabelComponent] = "work"
	all[o.DGD.Name] = o
	b.s.queue.add(client.ObjectKeyFromObject(o.DGD))
	b.look()
	if len(b.said.Events) != 1 {
		t.Fatalf("%d events", len(b.said.Events))
	}
	if said := <-b.said.Events; !strings.HasPrefix(said, "Normal WaitingForAdmission waits for admission: ") {
		t.Error(said)
	}
}
