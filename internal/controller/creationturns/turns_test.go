// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package creationturns

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/trellis-k8s/trellis/internal/bools"
)

// replicaSim is a gang of a scaling group in the simulation: size pods, of which some exist, and pods before them that terminate. It served
// once it was whole.
type replicaSim struct {
	size, exist, terminating int64
	served                   bool
}

// namespaceSim plays the API server with a quota, or a webhook that counts, and the controller of scaling groups.
type namespaceSim struct {
	turns  *Turns
	groups []string
	gangs  map[string][]*replicaSim
	// hard is the quota of GPUs, 1 per pod. counted: the operator sees it; otherwise a webhook refuses what is beyond it.
	hard    int64
	counted bool
	resting map[string]Rests
	told    map[string]bool
	clock   time.Time
}

func (n *namespaceSim) used() (used int64) {
	for _, gangs := range n.gangs {
		for _, g := range gangs {
			used += g.exist + g.terminating
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
	if !n.counted {
		n.turns.space("ns").refused = n.clock
	}
	name := types.NamespacedName{Namespace: "ns", Name: group}
	p := Part{Group: name, Created: time.Unix(int64(len(group)), 0), Rests: n.resting[group]}
	for i, g := range n.gangs[group] {
		if g.exist < g.size {
			p.Wants = append(p.Wants, Want{
				Key: Key{Graph: types.UID(group), GraphName: group, Group: group, Ordinal: int32(i)}, Name: fmt.Sprint(group, i), Ready: g.terminating == 0,
				Succeeds: g.served, Exists: g.exist > 0, Missing: []Pods{{ChargeOf(podOf(1, "")), g.size - g.exist}},
			})
		}
	}
	slices.SortStableFunc(p.Wants, func(a, b Want) int { return bools.Compare(b.Succeeds, a.Succeeds) })
	decisions := n.turns.Sync(p, n.quotas())
	created, refused := map[Key]bool{}, Rests{}
	for _, want := range p.Wants {
		g, d := n.gangs[group][want.Ordinal], decisions[want.Key]
		if d.GiveBack {
			g.exist = 0
		}
		if d.Overdue {
			n.resting[group] = All
		}
		for d.Create && refused == (Rests{}) && g.exist < g.size {
			if atMost--; atMost < 0 {
				n.turns.spaces = nil // of the next operator
				return
			}
			if g.exist++; n.used() > n.hard {
				g.exist, refused = 0, refused.Of(d)
			}
		}
		if refused != (Rests{}) {
			break
		}
		if d.Create {
			created[want.Key], g.served = true, true
		}
	}
	if len(created) > 0 || refused != (Rests{}) {
		was := n.resting[group]
		n.resting[group] = Rests{Successors: was.Successors || refused.Successors, Others: was.Others || refused.Others}
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
		n := &namespaceSim{gangs: map[string][]*replicaSim{}, resting: map[string]Rests{}, told: map[string]bool{}, clock: time.Unix(1000, 0)}
		n.turns = &Turns{Tell: func(g types.NamespacedName) { n.told[g.Name] = true }, Now: func() time.Time { return n.clock }}
		n.hard, n.counted = int64(rapid.IntRange(0, 12).Draw(t, "hard")), rapid.Bool().Draw(t, "counted")
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
			Group: types.NamespacedName{Namespace: "ns", Name: group}, Members: []string{"a", "b"}, Rests: Rests{Successors: rests, Others: rests},
			Wants: []Want{{Key: key, Name: "g", Ready: true, Exists: has, Missing: []Pods{{ChargeOf(podOf(1, "")), missing}}}},
		}
	}
	if d := turns.Sync(part("a", 2, false, false), quotas)[key]; d.Create {
		t.Fatal("it is created before all of it is known")
	}
	if told["b"] != 1 {
		t.Fatalf("the group whose part is not known is told %d times", told["b"])
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
	turns.Created(types.NamespacedName{Namespace: "ns", Name: "a"}, map[Key]bool{key: true}, Rests{}, quotas)
	turns.Created(types.NamespacedName{Namespace: "ns", Name: "b"}, nil, All, quotas)
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

// While a webhook refuses pods, a replica that served is created again before replicas that never were, of its group and of others: also
// while its own pods terminate.
func TestWhatServedComesBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := &namespaceSim{gangs: map[string][]*replicaSim{}, resting: map[string]Rests{}, told: map[string]bool{}, clock: time.Unix(1000, 0)}
		n.turns = &Turns{Tell: func(g types.NamespacedName) { n.told[g.Name] = true }, Now: func() time.Time { return n.clock }}
		n.hard = int64(rapid.IntRange(2, 12).Draw(t, "hard"))
		for i := range rapid.IntRange(1, 4).Draw(t, "groups") {
			group := fmt.Sprintf("%0*d", i+1, 0)
			n.groups = append(n.groups, group)
			size := int64(rapid.IntRange(1, 4).Draw(t, "size"))
			for range rapid.IntRange(1, 3).Draw(t, "replicas") {
				n.gangs[group] = append(n.gangs[group], &replicaSim{size: size})
			}
		}
		n.settle(t)
		var lost []*replicaSim
		for _, group := range n.groups {
			for _, g := range n.gangs[group] {
				if g.exist > 0 && rapid.Bool().Draw(t, "lost") {
					g.exist, g.terminating = 0, g.size
					lost = append(lost, g)
					n.reconcile(group, 100)
				}
			}
		}
		for range rapid.IntRange(0, 20).Draw(t, "steps") {
			if len(lost) > 0 && rapid.Bool().Draw(t, "ends") {
				rapid.SampledFrom(lost).Draw(t, "which").terminating = 0
			}
			if rapid.Bool().Draw(t, "eases") {
				clear(n.resting)
			}
			n.reconcile(rapid.SampledFrom(n.groups).Draw(t, "group"), 100)
		}
		for _, g := range lost {
			g.terminating = 0
		}
		n.settle(t)
		for _, g := range lost {
			if g.exist != g.size {
				t.Fatalf("a replica that served has %d of %d pods: %s", g.exist, g.size, n.state())
			}
		}
	})
}

// A refused replica that never served does not delay the successor of one that did, and no other group begins before that.
func TestSuccessorDoesNotRest(t *testing.T) {
	clock, told := time.Unix(1000, 0), map[string]int{}
	turns := &Turns{Tell: func(g types.NamespacedName) { told[g.Name]++ }, Now: func() time.Time { return clock }}
	want := func(group string, ordinal int32, succeeds, ready bool) Want {
		return Want{Key: Key{Graph: types.UID(group), GraphName: group, Group: group, Ordinal: ordinal}, Name: group, Succeeds: succeeds, Ready: ready,
			Missing: []Pods{{ChargeOf(podOf(1, "")), 2}}}
	}
	create := func(group string, rests Rests, wants ...Want) (ordinals []int32) {
		decisions := turns.Sync(Part{Group: types.NamespacedName{Namespace: "ns", Name: group}, Rests: rests, Wants: wants}, nil)
		for _, one := range wants {
			if decisions[one.Key].Create {
				ordinals = append(ordinals, one.Ordinal)
			}
		}
		return ordinals
	}
	check := func(what string, got []int32, want ...int32) {
		t.Helper()
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	refuse := func(group string, which Rests) {
		turns.Created(types.NamespacedName{Namespace: "ns", Name: group}, nil, which, nil)
	}
	others := Rests{Others: true}
	check("growth", create("a", Rests{}, want("a", 1, false, true)), 1)
	refuse("a", others)
	check("growth that rests", create("a", others, want("a", 1, false, true)))
	check("replica 0 terminates", create("a", others, want("a", 0, true, false), want("a", 1, false, true)))
	check("growth of another group meanwhile", create("b", Rests{}, want("b", 0, false, true)))
	check("its successor, while growth rests", create("a", others, want("a", 0, true, true), want("a", 1, false, true)), 0)
	refuse("a", Rests{Successors: true})
	check("growth of another group while the successor rests", create("b", Rests{}, want("b", 0, false, true)))
	check("a successor of another group", create("b", Rests{}, want("b", 1, true, true)), 1)
	turns.Created(types.NamespacedName{Namespace: "ns", Name: "b"}, map[Key]bool{want("b", 1, true, true).Key: true}, Rests{}, nil)
	create("b", Rests{})
	if name := (types.NamespacedName{Namespace: "ns", Name: "b"}); !turns.Yields(name) || turns.Yields(types.NamespacedName{Namespace: "ns", Name: "a"}) {
		t.Error("b alone leaves the turn to the successor of a")
	}
	clock = clock.Add(within)
	check("growth of another group after the successor was refused for long", create("b", Rests{}, want("b", 0, false, true)), 0)
}
