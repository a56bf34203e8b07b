// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package creationturns

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
)

// replicaSim is a gang of a scaling group in the simulation: size pods, of which some exist.
type replicaSim struct{ size, exist int64 }

// namespaceSim plays the API server with a quota, or a webhook that counts, and the controller of scaling groups.
type namespaceSim struct {
	turns  *Turns
	groups []string
	gangs  map[string][]*replicaSim
	// hard is the quota of GPUs, 1 per pod. counted: the operator sees it; otherwise a webhook refuses what is beyond it.
	hard    int64
	counted bool
	resting map[string]bool
	told    map[string]bool
	clock   time.Time
}

func (n *namespaceSim) used() (used int64) {
	for _, gangs := range n.gangs {
		for _, g := range gangs {
			used += g.exist
		}
	}
	return used
}

func (n *namespaceSim) quotas() []corev1.ResourceQuota {
	if !n.counted {
		return nil
	}
	q := quotaOf("q", "requests."+gpu, n.hard, 0)
	q.Status.Used["requests."+gpu] = *resource.NewQuantity(n.used(), resource.DecimalSI)
	return []corev1.ResourceQuota{q}
}

// reconcile plays one reconcile of a group. atMost bounds how many pods it creates: then the operator is killed.
func (n *namespaceSim) reconcile(group string, atMost int) {
	name := types.NamespacedName{Namespace: "ns", Name: group}
	p := Part{Group: name, Created: time.Unix(int64(len(group)), 0), Resting: n.resting[group]}
	for i, g := range n.gangs[group] {
		if g.exist < g.size {
			p.Wants = append(p.Wants, Want{
				Key: Key{Graph: types.UID(group), GraphName: group, Group: group, Ordinal: int32(i)}, Name: fmt.Sprint(group, i), Ready: true,
				Exists: g.exist > 0, Missing: []Pods{{ChargeOf(podOf(1, "")), g.size - g.exist}},
			})
		}
	}
	decisions := n.turns.Sync(p, n.quotas())
	created, refused := map[Key]bool{}, false
	for _, want := range p.Wants {
		g, d := n.gangs[group][want.Ordinal], decisions[want.Key]
		if d.GiveBack {
			g.exist = 0
		}
		n.resting[group] = n.resting[group] || d.Overdue
		for d.Create && !refused && g.exist < g.size {
			if atMost--; atMost < 0 {
				n.turns.spaces = nil // of the next operator
				return
			}
			if refused = n.used() >= n.hard; !refused {
				g.exist++
			}
		}
		if refused {
			g.exist = 0
			break
		}
		if d.Create {
			created[want.Key] = true
		}
	}
	if !n.resting[group] {
		n.resting[group] = refused
		n.turns.Created(name, created, refused, n.quotas())
	}
}

// ease has the back-off of refused groups end, as it does after a while, or when a quota allows more.
func (n *namespaceSim) ease() {
	clear(n.resting)
	for _, group := range n.turns.Eased("ns", n.quotas()) {
		n.told[group.Name] = true
	}
}

// Whatever the sizes, the quota, the order of reconciles and where operators are killed: in the end no gang exists in part, and none is
// missing that fits in what is left and that no earlier one waits for.
func TestNoGangStaysIncomplete(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := &namespaceSim{gangs: map[string][]*replicaSim{}, resting: map[string]bool{}, told: map[string]bool{}, clock: time.Unix(1000, 0)}
		n.turns = &Turns{Tell: func(g types.NamespacedName) { n.told[g.Name] = true }, Now: func() time.Time { return n.clock }}
		n.hard, n.counted = int64(rapid.IntRange(0, 12).Draw(t, "hard")), rapid.Bool().Draw(t, "counted")
		if !n.counted {
			n.turns.space("ns").refused = n.clock
		}
		for i := range rapid.IntRange(1, 4).Draw(t, "groups") {
			group := fmt.Sprintf("%0*d", i+1, 0)
			n.groups = append(n.groups, group)
			size := int64(rapid.IntRange(1, 4).Draw(t, "size"))
			for range rapid.IntRange(1, 3).Draw(t, "replicas") {
				exist := int64(rapid.IntRange(0, int(size)).Draw(t, "exist")) // left by an earlier version
				if n.used()+exist > n.hard {
					exist = 0
				}
				n.gangs[group] = append(n.gangs[group], &replicaSim{size: size, exist: exist})
			}
		}
		for range rapid.IntRange(0, 20).Draw(t, "steps") {
			group := rapid.SampledFrom(n.groups).Draw(t, "group")
			n.reconcile(group, rapid.SampledFrom([]int{0, 1, 2, 100, 100, 100}).Draw(t, "killed after"))
			if !n.counted {
				n.turns.space("ns").refused = n.clock
			}
		}
		n.settle(t)
	})
}

// settle reconciles those that are told, and each group twice a minute, until nothing changes.
func (n *namespaceSim) settle(t *rapid.T) {
	for round, quiet := 0, 0; quiet < 3; round++ {
		if round > 100 {
			t.Fatalf("it does not settle: %v", n.gangs)
		}
		before := n.state()
		for _, group := range n.groups {
			n.reconcile(group, 100)
		}
		for range 50 {
			for group := range n.told {
				delete(n.told, group)
				n.reconcile(group, 100)
			}
		}
		n.clock = n.clock.Add(31 * time.Second)
		n.ease()
		if quiet++; n.state() != before {
			quiet = 0
		}
	}
	waits := false
	for _, group := range n.groups {
		for i, g := range n.gangs[group] {
			if g.exist != 0 && g.exist != g.size {
				t.Errorf("gang %s-%d has %d of %d pods: %s", group, i, g.exist, g.size, n.state())
			}
			if g.exist == 0 && g.size <= n.hard {
				if n.used()+g.size <= n.hard && !waits {
					t.Errorf("gang %s-%d fits in what is left, and nothing waits before it: %s", group, i, n.state())
				}
				waits = true
			}
		}
	}
}

func (n *namespaceSim) state() (out string) {
	for _, group := range n.groups {
		for _, g := range n.gangs[group] {
			out += fmt.Sprintf("%s:%d/%d ", group, g.exist, g.size)
		}
	}
	return fmt.Sprintf("%sof %d", out, n.hard)
}

// A base gang has one turn: the groups of it are told, and when a part of it is refused, all give back.
func TestBaseGangIsOne(t *testing.T) {
	clock, told := time.Unix(1000, 0), map[string]int{}
	turns := &Turns{Tell: func(g types.NamespacedName) { told[g.Name]++ }, Now: func() time.Time { return clock }}
	quotas := []corev1.ResourceQuota{quotaOf("q", "requests."+gpu, 4, 0)}
	key := Key{Graph: "g", GraphName: "g", Ordinal: First}
	part := func(group string, missing int64, has, rests bool) Part {
		return Part{
			Group: types.NamespacedName{Namespace: "ns", Name: group}, Members: []string{"a", "b"}, Resting: rests,
			Wants: []Want{{Key: key, Name: "g", Ready: true, Exists: has, Missing: []Pods{{ChargeOf(podOf(1, "")), missing}}}},
		}
	}
	if d := turns.Sync(part("a", 2, false, false), quotas)[key]; d.Create {
		t.Fatal("it is created before all of it is known")
	}
	if d := turns.Sync(part("b", 2, false, false), quotas)[key]; !d.Create {
		t.Fatal("all of it is known, and it fits")
	}
	if told["a"] != 1 {
		t.Fatalf("the other group is told %d times", told["a"])
	}
	if d := turns.Sync(part("a", 2, false, false), quotas)[key]; !d.Create {
		t.Fatal("the other group may not create its part")
	}
	turns.Created(types.NamespacedName{Namespace: "ns", Name: "a"}, map[Key]bool{key: true}, false, quotas)
	turns.Created(types.NamespacedName{Namespace: "ns", Name: "b"}, nil, true, quotas)
	if told["a"] != 2 {
		t.Fatalf("after a refusal of the part of b, a is told %d times", told["a"])
	}
	if d := turns.Sync(part("a", 0, true, false), quotas)[key]; !d.GiveBack {
		t.Fatal("a keeps its part")
	}
	turns.Sync(part("a", 2, false, false), quotas)
	if d := turns.Sync(part("b", 2, false, false), quotas)[key]; !d.Create {
		t.Fatal("it does not try again after b has rested")
	}
	clock = clock.Add(within)
	if d := turns.Sync(part("b", 2, false, false), quotas)[key]; !d.Overdue {
		t.Fatal("it keeps the turn although nothing comes of it")
	}
}
