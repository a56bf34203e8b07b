// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/trellis-k8s/trellis/internal/topology"
)

const gangLabel = "gang"

// runs binds a pod: "node gang priority gpus".
func runs(c *topology.Cluster, texts ...string) {
	for _, text := range texts {
		w := strings.Fields(text)
		priority, _ := strconv.Atoi(w[2])
		p := podOf(map[string]string{gpu: w[3]})
		p.Spec.NodeName = w[0]
		for i, taken := 0, true; taken; i++ {
			p.Name = fmt.Sprintf("%s@%s#%d", w[1], w[0], i)
			_, taken = c.Bound(topology.PodID(p))
		}
		p.Labels = map[string]string{gangLabel: w[1]}
		p.Spec.Priority = new(int32)
		*p.Spec.Priority = int32(priority)
		if len(w) > 4 {
			p.DeletionTimestamp = &metav1.Time{}
		}
		c.SetPod(p)
	}
}

func clusterWithGangs(ls topology.Levels, nodes ...string) *topology.Cluster {
	c := topology.NewCluster()
	c.GangOf = func(p *corev1.Pod) string { return p.Labels[gangLabel] }
	for _, text := range nodes {
		c.SetNode(nodeOf(ls, text))
	}
	return c
}

// preemptions lists what each placed replica costs others.
func preemptions(r Result) []string {
	var lines []string
	for _, one := range r.Replicas {
		if one.Preempts != nil {
			lines = append(lines, fmt.Sprintf("%s-%d preempts %d of %s", one.Component, one.Ordinal, one.Preempts.Pods, strings.Join(one.Preempts.Gangs, ",")))
		}
	}
	return lines
}

func TestPreempt(t *testing.T) {
	ls := levels("zone", "rack")
	twoRacks := []string{"a0 z/r0 8", "a1 z/r0 8", "b0 z/r1 8", "b1 z/r1 8"}
	rackGang := Demand{Levels: ls, Required: none, Preferred: none, Priority: 10, Preempts: true, Components: []Component{componentOf("w", 1, none, 1, 2, gpus(8))}}
	for name, tc := range map[string]struct {
		nodes, running []string
		graph          Demand
		want, costs    []string
	}{
		"free capacity comes first": {
			twoRacks, []string{"a0 x 0 8", "a1 x 0 8"}, rackGang,
			[]string{"w-0 z/r1: b0 b1"}, nil,
		},
		"the rack that breaks fewest gangs": {
			twoRacks, []string{"a0 x 0 8", "a1 y 0 8", "b0 z 0 8", "b1 z 0 8"}, rackGang,
			[]string{"w-0 z/r1: b0 b1"}, []string{"w-0 preempts 2 of z"},
		},
		"a rack half free is cheaper": {
			twoRacks, []string{"a0 x 0 8", "a1 x 0 8", "b0 y 0 1"}, rackGang,
			[]string{"w-0 z/r1: b0 b1"}, []string{"w-0 preempts 1 of y"},
		},
		"the lower priority of two": {
			twoRacks, []string{"a0 x 5 8", "a1 x 5 8", "b0 y 7 8", "b1 y 7 8"}, rackGang,
			[]string{"w-0 z/r0: a0 a1"}, []string{"w-0 preempts 2 of x"},
		},
		"equal and higher priorities stay": {
			twoRacks, []string{"a0 x 10 8", "a1 x 0 8", "b0 y 0 8", "b1 y 11 8"}, rackGang,
			[]string{"w-0 InsufficientCapacity"}, nil,
		},
		"who never preempts waits": {
			twoRacks, []string{"a0 x 0 8", "a1 x 0 8", "b0 y 0 8", "b1 y 0 8"},
			Demand{Levels: ls, Required: none, Preferred: none, Priority: 10, Components: rackGang.Components},
			[]string{"w-0 InsufficientCapacity"}, nil,
		},
		"pods that leave anyway are no victims": {
			twoRacks, []string{"a0 x 0 8 leaving", "a1 x 0 8 leaving", "b0 y 20 8", "b1 y 20 8"}, rackGang,
			[]string{"w-0 InsufficientCapacity"}, nil,
		},
		"one large gang rather than many small ones": {
			[]string{"a0 z/r0 8", "a1 z/r0 8", "a2 z/r0 8", "a3 z/r0 8"},
			[]string{"a0 s 0 8", "a1 t 0 8", "a2 big 0 8", "a3 big 0 8"}, rackGang,
			[]string{"w-0 z/r0: a2 a3"}, []string{"w-0 preempts 2 of big"},
		},
		"as few pods of a host as do": {
			[]string{"a0 z/r0 8", "a1 z/r0 8"}, []string{"a0 x 0 4", "a0 y 1 4", "a1 v 20 8"},
			Demand{Levels: ls, Required: none, Preferred: none, Priority: 10, Preempts: true, Components: []Component{componentOf("w", 1, none, 1, 1, gpus(4))}},
			[]string{"w-0 z/r0: a0"}, []string{"w-0 preempts 1 of x"},
		},
		"the base gang goes together": {
			twoRacks, []string{"a0 x 0 8", "a1 x 0 8", "b0 y 0 8", "b1 z 20 8"},
			Demand{Levels: ls, Required: 1, Preferred: none, Priority: 10, Preempts: true, Components: []Component{
				componentOf("d", none, none, 2, 1, gpus(8)), componentOf("p", none, none, 1, 1, gpus(8))}},
			[]string{"d-0 z/r0: a0", "d-1 BaseGangWaits", "p-0 z/r0: a1"}, []string{"d-0 preempts 2 of x", "p-0 preempts 2 of x"},
		},
		"the replicas that a service does not run without go together": {
			twoRacks, []string{"a0 x 0 8", "a1 z 20 8", "b0 y 0 8", "b1 y 0 8"},
			Demand{Levels: ls, Required: none, Preferred: none, Priority: 10, Preempts: true, Components: []Component{
				{Name: "w", Required: 1, Preferred: none, MinAvailable: 2, Waiting: componentOf("w", 1, none, 3, 1, gpus(8)).Waiting}}},
			[]string{"w-0 z/r1: b0", "w-1 z/r1: b1", "w-2 BaseGangWaits"}, []string{"w-0 preempts 2 of y", "w-1 preempts 2 of y"},
		},
		"and nobody frees capacity for a part of them": {
			twoRacks, []string{"a0 x 0 8", "a1 z 20 8", "b0 y 0 8", "b1 y 20 8"},
			Demand{Levels: ls, Required: none, Preferred: none, Priority: 10, Preempts: true, Components: []Component{
				{Name: "w", Required: 1, Preferred: none, MinAvailable: 2, Waiting: componentOf("w", 1, none, 2, 1, gpus(8)).Waiting}}},
			[]string{"w-0 InsufficientCapacity", "w-1 InsufficientCapacity"}, nil,
		},
		"for what a component lacks to run before what another would like": {
			twoRacks[:1], []string{"a0 x 0 8"},
			Demand{Levels: ls, Required: none, Preferred: none, Priority: 10, Preempts: true, Components: []Component{
				{Name: "d", Required: none, Preferred: none, Placed: 1, Waiting: componentOf("d", none, none, 1, 1, gpus(8)).Waiting},
				componentOf("p", none, none, 1, 1, gpus(8))}},
			[]string{"d-0 InsufficientCapacity", "p-0 : a0"}, []string{"p-0 preempts 1 of x"},
		},
		"an anchored replica preempts inside its anchor only": {
			twoRacks, []string{"a0 own 10 8", "a1 x 0 8", "b0 y 0 1", "b1 z 0 8"},
			Demand{Levels: ls, Required: 1, Preferred: none, Anchor: topology.Path{"z", "r0"}, Priority: 10, Preempts: true, Components: []Component{componentOf("w", none, none, 1, 1, gpus(8))}},
			[]string{"w-0 z/r0: a1"}, []string{"w-0 preempts 1 of x"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := clusterWithGangs(ls, tc.nodes...)
			runs(c, tc.running...)
			r := PlanGraph(c, tc.graph, Options{})
			if diff := cmp.Diff(tc.want, summary(r)); diff != "" {
				t.Errorf("placed (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.costs, preemptions(r)); diff != "" {
				t.Errorf("preempts (-want +got):\n%s", diff)
			}
		})
	}
}

// A victim's capacity stays counted until it is gone, and so does the reservation of the gang that gets it: no one else is planned there.
func TestPreemptedCapacityIsTaken(t *testing.T) {
	ls := levels("rack")
	c := clusterWithGangs(ls, "a0 r0 8")
	runs(c, "a0 x 0 8")
	g := Demand{Levels: ls, Required: none, Preferred: none, Priority: 10, Preempts: true, Components: []Component{componentOf("w", 0, none, 1, 1, gpus(8))}}
	if r := PlanGraph(c, g, Options{}); !r.Placed() {
		t.Fatal(summary(r))
	}
	other := g
	other.Components = []Component{componentOf("v", 0, none, 1, 1, gpus(8))}
	if r := PlanGraph(c, other, Options{}); r.Placed() {
		t.Error("two gangs were planned onto the capacity of one victim")
	}
	c.DeletePod("test/x@a0#0")
	if node, ok := c.Reserved("w-0-0"); !ok || node != "a0" {
		t.Errorf("reserved on %q", node)
	}
	other.Priority = 0
	if r := PlanGraph(c, other, Options{}); r.Placed() {
		t.Error("the capacity that the victim left was given to somebody else")
	}
}

// With priorities drawn at random, a gang finds capacity exactly when it would if everything of lower priority were gone, and nothing of its own or
// a higher priority is ever asked to leave. What is said to be preempted makes the capacity.
func TestPreemptionFindsCapacityExactlyWhenThereIs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ls := levels("zone", "rack")
		nodes, running := drawBusyRacks(t)
		const priority = 5
		g := Demand{Levels: ls, Required: rapid.SampledFrom([]int{none, 0, 1}).Draw(t, "required"), Preferred: none, Priority: priority, Preempts: true}
		g.Components = []Component{componentOf("w", rapid.SampledFrom([]int{0, 1}).Draw(t, "service"), none, 1, rapid.IntRange(1, 4).Draw(t, "pods"), gpus(rapid.SampledFrom([]int{2, 4, 8}).Draw(t, "gpus")))}
		g.Components[0].Required = max(g.Components[0].Required, g.Required)

		busy := clusterWithGangs(ls, nodes...)
		runs(busy, running...)
		got := PlanGraph(busy, g, Options{})

		empty := clusterWithGangs(ls, nodes...)
		runs(empty, slices.DeleteFunc(slices.Clone(running), func(s string) bool { return strings.Fields(s)[2] < "5" })...)
		if want := PlanGraph(empty, g, Options{}); got.Placed() != want.Placed() {
			t.Fatalf("placed %v with preemption, %v without those of lower priority:\n%v\n%v", got.Placed(), want.Placed(), nodes, running)
		}
		for _, one := range got.Replicas {
			if one.Preempts == nil {
				continue
			}
			for _, gang := range one.Preempts.Gangs {
				if !slices.ContainsFunc(running, func(s string) bool { w := strings.Fields(s); return w[1] == gang && w[2] < "5" }) {
					t.Fatalf("%s is asked to leave, and has priority 5 or higher", gang)
				}
			}
		}
	})
}

func drawBusyRacks(t *rapid.T) (nodes, running []string) {
	for i := range rapid.IntRange(1, 10).Draw(t, "nodes") {
		name := fmt.Sprintf("n%d", i)
		nodes = append(nodes, fmt.Sprintf("%s z%d/r%d 8", name, rapid.IntRange(0, 1).Draw(t, "zone"), rapid.IntRange(0, 2).Draw(t, "rack")))
		for left := 8; left > 0; {
			n := rapid.IntRange(0, left).Draw(t, "taken")
			if n == 0 {
				break
			}
			left -= n
			gang := rapid.IntRange(0, 9).Draw(t, "gang")
			running = append(running, fmt.Sprintf("%s g%d %d %d", name, gang, gang, n))
		}
	}
	return nodes, running
}

func TestReservedHostsAreNamed(t *testing.T) {
	ls := levels("rack")
	c := clusterWithGangs(ls, "a0 r0 8", "a1 r0 8")
	g := Demand{Levels: ls, Required: none, Preferred: none, Components: []Component{componentOf("w", 0, none, 1, 2, gpus(8))}}
	c.ReserveNode("a1", "team/big")
	r := PlanGraph(c, g, Options{})
	if got, want := r.Replicas[0].Refusal.Message(), "needs 2 pods x 8 nvidia.com/gpu in one rack; r0 holds 1 of 2 (1 host reserved for team/big)"; got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	c.ReserveNode("a1", "")
	if r := PlanGraph(c, g, Options{}); !r.Placed() {
		t.Error("not placed after the hold ended")
	}
}
