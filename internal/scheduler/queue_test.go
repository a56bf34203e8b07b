// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

func named(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: "ns", Name: name}
}

// taken takes what is due at a time, in one line.
func taken(q *queue, at time.Time) (names string, next time.Duration) {
	due, next := q.take(at)
	var out []string
	for _, name := range due {
		out = append(out, name.Name)
	}
	slices.Sort(out)
	return strings.Join(out, " "), next
}

func TestQueueTakesWhatIsDue(t *testing.T) {
	q := newQueue()
	q.add(named("now"))
	q.add(named("now"))
	q.addAt(named("soon"), begin.Add(time.Minute))
	q.addAt(named("soon"), begin.Add(time.Hour)) // the earliest counts
	q.addAt(named("later"), begin.Add(2*time.Minute))
	for _, step := range []struct {
		at   time.Duration
		want string
		next time.Duration
	}{
		{0, "now", time.Minute},
		{0, "", time.Minute},
		{time.Minute, "soon", time.Minute},
		{10 * time.Minute, "later", time.Hour},
		{10 * time.Minute, "", time.Hour},
	} {
		if got, next := taken(q, begin.Add(step.at)); got != step.want || next != step.next {
			t.Errorf("after %s: %q, the next one in %s; want %q, %s", step.at, got, next, step.want, step.next)
		}
	}
}

// A graph that is added while it is being planned is due again.
func TestQueueLosesNothing(t *testing.T) {
	q := newQueue()
	q.add(named("g"))
	taken(q, begin)
	q.add(named("g"))
	if got, _ := taken(q, begin); got != "g" {
		t.Errorf("due are %q, want g", got)
	}
	q.add(named("h"))
	q.addAt(named("h"), begin.Add(time.Minute))
	q.drop(named("h"))
	if _, next := taken(q, begin); next != time.Hour {
		t.Errorf("a graph that is gone is looked at in %s", next)
	}
}

func TestQueueWakesWhomItConcerns(t *testing.T) {
	concerned := func(name types.NamespacedName, _ waiting) bool { return name.Name == "fits" }
	for name, tc := range map[string]struct {
		wake func(q *queue)
		want string
		// later are those that are due a minute later.
		later string
	}{
		"all that wait":         {(*queue).wakeWaiting, "fits important other", ""},
		"those a node is for":   {func(q *queue) { q.wakeFor("a0", begin.Add(time.Minute), concerned) }, "fits", "important other"},
		"those who may preempt": {func(q *queue) { q.wakeAbove(5, begin.Add(time.Minute)) }, "", "important"},
		"nobody":                {(*queue).wake, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			q := newQueue()
			q.setWaiting(named("fits"), true, waiting{})
			q.setWaiting(named("other"), true, waiting{preemptsBelow: 5})
			q.setWaiting(named("important"), true, waiting{preemptsBelow: 6})
			q.setWaiting(named("placed"), true, waiting{preemptsBelow: 9})
			q.setWaiting(named("placed"), false, waiting{})
			tc.wake(q)
			if got, _ := taken(q, begin); got != tc.want {
				t.Errorf("due are %q, want %q", got, tc.want)
			}
			if got, _ := taken(q, begin.Add(time.Minute)); got != tc.later {
				t.Errorf("due later are %q, want %q", got, tc.later)
			}
		})
	}
}

// The cause of a look is what added the graph: nodes only as long as nothing else did.
func TestQueueKnowsTheCause(t *testing.T) {
	q := newQueue()
	everybody := func(types.NamespacedName, waiting) bool { return true }
	q.setWaiting(named("g"), true, waiting{})
	q.wakeFor("a0", begin, everybody)
	q.wakeFor("a1", begin, everybody)
	q.wakeFor("a0", begin, everybody)
	taken(q, begin)
	if nodes, always := q.cause(named("g")); always || !slices.Equal(nodes, []string{"a0", "a1"}) {
		t.Errorf("because of %v, in any case: %v", nodes, always)
	}
	q.wakeFor("a0", begin, everybody)
	q.add(named("g"))
	taken(q, begin)
	if _, always := q.cause(named("g")); !always {
		t.Error("an event of the graph's own is only looked at for the node")
	}
}

// A graph that is long in line keeps a few nodes that became free meanwhile, each once; after more of them it is looked at in any case.
func TestCausesAreBounded(t *testing.T) {
	q, nodes := newQueue(), 3
	everybody := func(types.NamespacedName, waiting) bool { return true }
	q.setWaiting(named("g"), true, waiting{})
	free := func() {
		for range 1000 {
			for n := range nodes {
				q.wakeFor(fmt.Sprint("a", n), begin, everybody)
			}
			taken(q, begin)
		}
	}
	free()
	if got, always := q.cause(named("g")); always || !slices.Equal(got, []string{"a0", "a1", "a2"}) {
		t.Errorf("because of %d nodes, in any case: %v", len(got), always)
	}
	nodes = maxCauses + 1
	free()
	if got, always := q.cause(named("g")); !always || len(got) > 0 {
		t.Errorf("because of %d nodes, in any case: %v", len(got), always)
	}
}
