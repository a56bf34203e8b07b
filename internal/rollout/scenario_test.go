// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/trellis-k8s/trellis/test/testutil/golden"
)

// chapter is one thing that happens; afterwards everybody acts, for so many rounds or, when that is 0, until nothing changes any more.
type chapter struct {
	title  string
	change func(*simulation)
	rounds int
}

func edit(title string) chapter {
	return chapter{title: title, change: func(s *simulation) { s.revision++ }}
}

func scale(n int) chapter {
	return chapter{title: fmt.Sprintf("scaled to %d", n), change: func(s *simulation) { s.want.Replicas = n }}
}

func later(title string, change func(*simulation)) chapter {
	return chapter{title: title, change: change}
}

// cut leaves the component on its way.
func (c chapter) cut(rounds int) chapter { c.rounds = rounds; return c }

// TestScenarios describes what becomes of a component, step by step: the golden files are what a reviewer reads.
func TestScenarios(t *testing.T) {
	inPlace, surge := Group{Replicas: 3, MaxUnavailable: 1}, Group{Replicas: 3, MaxSurge: 1}
	both := Group{Replicas: 3, MaxUnavailable: 1, MaxSurge: 1}
	cases := map[string]struct {
		want     Group
		capacity int
		chapters []chapter
	}{
		"update-in-place":                 {inPlace, 3, []chapter{edit("edited")}},
		"update-with-surge":               {surge, 4, []chapter{edit("edited"), edit("edited again")}},
		"surge-without-capacity-blocks":   {surge, 3, []chapter{edit("edited"), later("capacity for one more", func(s *simulation) { s.capacity++ })}},
		"surge-without-capacity-in-place": {both, 3, []chapter{edit("edited")}},
		"recreate":                        {Group{Replicas: 2, Recreate: true}, 2, []chapter{edit("edited")}},
		"change-in-the-middle":            {inPlace, 3, []chapter{edit("edited").cut(3), edit("edited again")}},
		"revert-in-the-middle": {inPlace, 3, []chapter{
			edit("edited").cut(3), later("reverted: what serves the first revision stays", func(s *simulation) { s.revision = 0 }),
		}},
		"revert-of-what-never-serves": {inPlace, 3, []chapter{
			later("edited, and the new revision never serves", func(s *simulation) { s.revision++; s.broken[1] = true }),
			later("reverted", func(s *simulation) { s.revision = 0 }),
		}},
		"scale-in-takes-the-unready-one": {inPlace, 3, []chapter{
			later("replica 1 stops serving", func(s *simulation) { s.replicas[1].state = Starting; s.broken[0] = true }),
			scale(2), later("it would serve again", func(s *simulation) { s.broken = map[int]bool{} }), scale(4),
		}},
		"scale-in-takes-the-youngest": {inPlace, 3, []chapter{
			later("replica 0 loses a pod", func(s *simulation) { s.replicas[0].state = Broken }), scale(2),
		}},
		"scale-in-takes-the-waiting-first": {inPlace, 3, []chapter{
			scale(5), later("replica 1 stops serving", func(s *simulation) { s.replicas[1].state = Starting; s.broken[0] = true }), scale(3), scale(2),
		}},
		"scale-out-while-updating": {inPlace, 5, []chapter{later("edited and scaled to 5", func(s *simulation) { s.revision++; s.want.Replicas = 5 })}},
		"scale-in-while-updating":  {both, 4, []chapter{edit("edited").cut(2), scale(1)}},
		"to-zero-and-back":         {both, 4, []chapter{edit("edited").cut(2), scale(0).cut(1), scale(3)}},
		"stop-and-go": {inPlace, 3, []chapter{
			later("everything has to stop", func(s *simulation) { s.revision++; s.want.Stopped = true }),
			later("it may go on", func(s *simulation) { s.want.Stopped = false }),
		}},
		"lost-with-its-node": {inPlace, 3, []chapter{
			later("replica 1 has to end, and its node is dead", func(s *simulation) { s.replicas[1].state = Lost }),
			edit("edited"), later("the node is back", (*simulation).nodesReturn),
		}},
		"lost-with-its-node-while-all-stop": {Group{Replicas: 2, Recreate: true}, 2, []chapter{
			edit("edited").cut(1), later("replica 1 does not end: its node is dead", func(s *simulation) { s.replicas[1].state = Lost }),
			later("the node is back", (*simulation).nodesReturn),
		}},
		"never-had-capacity": {inPlace, 2, []chapter{edit("edited")}},
		"move": {inPlace, 4, []chapter{
			later("the nodes of replica 1 are to go", func(s *simulation) { s.drain(1) }),
			later("those of the other two", func(s *simulation) { s.capacity += 2; s.drain(0, 3) }),
		}},
		"move-in-a-full-cluster": {inPlace, 3, []chapter{
			later("the nodes of replica 1 are to go", func(s *simulation) { s.drain(1) }),
			later("it is overdue", (*simulation).overdue),
			later("capacity for one more", func(s *simulation) { s.capacity++ }),
		}},
		"move-that-ends": {inPlace, 4, []chapter{
			later("the nodes of replica 1 are to go, and its successor does not serve", func(s *simulation) { s.broken[0] = true; s.drain(1) }),
			later("they are not", (*simulation).stay),
		}},
		"move-in-place": {Group{Replicas: 3, MaxUnavailable: 1, MovesInPlace: true}, 4, []chapter{
			later("all nodes are to go, and there are others", func(s *simulation) { s.capacity += 3; s.drain(0, 1, 2) }),
		}},
		"move-while-updating": {inPlace, 4, []chapter{
			later("edited, and the nodes of replica 1 are to go", func(s *simulation) { s.revision++; s.drain(1) }),
		}},
		"move-while-restarting": {inPlace, 4, []chapter{
			later("everything has to stop, and the nodes of replica 1 are to go", func(s *simulation) { s.revision++; s.want.Stopped = true; s.drain(1) }),
			later("it may go on", func(s *simulation) { s.want.Stopped = false }),
		}},
		"move-while-scaled": {inPlace, 4, []chapter{
			later("the nodes of replica 1 are to go", func(s *simulation) { s.drain(1) }).cut(1),
			later("scaled to 4, with capacity for it", func(s *simulation) { s.capacity += 2; s.want.Replicas = 4 }),
			later("the nodes of replica 0 are to go, with no capacity for a successor", func(s *simulation) { s.drain(0) }), scale(3),
		}},
		"move-while-the-update-is-paused": {inPlace, 4, []chapter{
			later("paused at one of the new revision, replica 1, whose nodes are to go", func(s *simulation) {
				s.revision, s.replicas[1].revision = 1, 1
				s.want.Step = &Step{Keep: 9, Make: 1, Paused: true, Bounds: Bounds{MaxUnavailable: 1}}
				s.drain(1)
			}),
			later("the nodes of replica 0 are to go, which runs the older one", func(s *simulation) { s.capacity++; s.drain(0) }),
			later("it is overdue", (*simulation).overdue),
			later("the old generation lacks one", func(s *simulation) { s.want.Step.Make = 2 }),
		}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := newSimulation(c.want, c.capacity)
			fmt.Fprintf(&s.log, "# %d wanted, %d may be missing, %d more, capacity for %d\n", c.want.Replicas, c.want.MaxUnavailable, c.want.MaxSurge, c.capacity)
			for _, chapter := range c.chapters {
				fmt.Fprintf(&s.log, "\n## %s\n", chapter.title)
				chapter.change(s)
				for range chapter.rounds {
					s.round()
				}
				if chapter.rounds == 0 && !s.settle() {
					t.Fatalf("it does not settle:\n%s", s.log.String())
				}
			}
			golden.Check(t, filepath.Join("testdata", name+".golden"), s.log.String())
		})
	}
}
