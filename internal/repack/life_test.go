// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package repack

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/trellis-k8s/trellis/internal/placement"
	"github.com/trellis-k8s/trellis/internal/topology"
	"github.com/trellis-k8s/trellis/test/testutil/tier"
)

// life is a hall over days: replicas come and go, two gangs wait, and one move is made at a time, as an operator would make it.
type life struct {
	*testing.T
	*hall
	random *rand.Rand
	now    time.Time
	made   int
	// waiting are the gangs that wait; the batch of moves belongs to the one at owner.
	waiting []Gang
	owner   int
	// batch are the moves for the owner, while nothing unplanned has happened; nil: none are under way.
	batch *Batch
	// left are the hosts that replicas left for a gang that still waits.
	left  map[string]leaving
	moved map[string]time.Time
	// ends is when the gangs that have a place end.
	ends map[string]time.Time

	moves, placed, blocked int
}

// most replicas of others than the gangs run at a time.
const most = 9

type leaving struct {
	gang  string
	hosts []string
}

// TestLife: two gangs that wait never make replicas go back and forth, in several random lives.
func TestLife(t *testing.T) {
	lives := uint64(4)
	if tier.Core() {
		lives = 1
	}
	for seed := range lives {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Parallel()
			l := &life{
				T: t, hall: &hall{}, random: rand.New(rand.NewPCG(66, seed)), now: noon,
				left: map[string]leaving{}, moved: map[string]time.Time{}, ends: map[string]time.Time{},
			}
			for _, rack := range []string{"a/r1", "a/r2", "a/r3", "b/r1", "b/r2"} {
				l.add(rack, 4, 4, 4)
			}
			for range 1500 {
				if l.turn(); t.Failed() {
					return
				}
			}
			t.Logf("%d gangs placed after %d moves in %s; %d times a gang had no moves", l.placed, l.moves, l.now.Sub(noon), l.blocked)
			if l.moves < 50 || l.placed < 50 {
				t.Errorf("too little happened: %d moves, %d gangs placed", l.moves, l.placed)
			}
		})
	}
}

// turn is one turn of a life, with two gangs that wait.
func (l *life) turn() {
	l.now = l.now.Add(time.Duration(1+l.random.IntN(20)) * time.Minute)
	for len(l.waiting) < 2 {
		l.wait()
	}
	if l.random.IntN(6) == 0 {
		l.unplanned()
	}
	l.end()
	l.step()
}

// wait adds a gang.
func (l *life) wait() {
	l.made++
	g := gangOf(1, 1+l.random.IntN(3), 4)
	g.Group.Name = fmt.Sprintf("gang-%d", l.made)
	l.waiting = append(l.waiting, g)
}

// unplanned has a replica begin where there is room, or one end.
func (l *life) unplanned() {
	l.batch, l.left = nil, map[string]leaving{}
	if n := len(l.replicas) - len(l.ends); n >= most || n > most/2 && l.random.IntN(2) == 0 {
		at := l.random.IntN(len(l.replicas))
		if _, gang := l.ends[l.replicas[at].Graph]; !gang {
			l.replicas = slices.Delete(l.replicas, at, at+1)
		}
		return
	}
	l.made++
	l.run(fmt.Sprintf("r-%d", l.made), 1+l.random.IntN(2), int64(1+l.random.IntN(2)))
}

// end ends the gangs whose time is over.
func (l *life) end() {
	l.replicas = slices.DeleteFunc(l.replicas, func(r Replica) bool {
		at, gang := l.ends[r.Graph]
		if !gang || l.now.Before(at) {
			return false
		}
		delete(l.ends, r.Graph)
		l.batch, l.left = nil, map[string]leaving{}
		return true
	})
}

// run has a replica begin on hosts of one rack, if there is room.
func (l *life) run(name string, pods int, gpus int64) {
	free := l.free(func(int) bool { return false })
	first := l.random.IntN(len(l.paths))
	var hosts []int
	for d := range l.paths {
		at := (first + d) % len(l.paths)
		if free[at] >= gpus && l.paths[at].Equal(l.paths[first]) && len(hosts) < pods {
			hosts = append(hosts, at)
		}
	}
	if len(hosts) == pods {
		l.runs(name, l.paths[first][:1].String(), 1, gpus, hosts...)
		l.replicas[len(l.replicas)-1].Created = l.now
	}
}

// step places the gangs that have a place, or makes one move for the one that owns the batch.
func (l *life) step() {
	for i := range l.waiting {
		if l.settle(i) {
			return
		}
	}
	for range l.waiting {
		gang := l.waiting[l.owner]
		found := Find(l.place(), gang, l.replicas, Limits{Now: l.now, InOrder: true})
		if l.batch == nil && found.Plan != nil {
			l.batch = &Batch{}
		}
		if l.batch != nil {
			next, ends := l.batch.Next(&found)
			switch {
			case next == nil && found.Cut: // not every set was tried
				l.batch = nil
				return
			case next == nil:
				l.Errorf("the batch for %s ends, and nothing unplanned happened: %s", gang.Group.Name, ends)
				return
			}
			l.move(gang, next)
			return
		}
		l.blocked++
		l.owner = (l.owner + 1) % len(l.waiting)
	}
}

// settle places a gang that has a place: it runs as a replica that ends some day.
func (l *life) settle(i int) bool {
	p, gang := l.place(), l.waiting[i]
	result, refusal := placement.PlanGroup(p.Cluster, levels, nil, &placement.Group{
		Required: topology.NoLevel, Preferred: topology.NoLevel, Groups: []*placement.Group{gang.Group}}, placement.Options{})
	if refusal != nil {
		return false
	}
	if i == l.owner {
		l.batch = nil
	} else if l.batch != nil {
		return false // the moves under way are for another one
	}
	var hosts []int
	for _, node := range nodesOf(result) {
		hosts = append(hosts, l.host(node))
	}
	l.runs(gang.Group.Name, "", 1, 4, hosts...)
	l.replicas[len(l.replicas)-1].Created = l.now
	l.ends[gang.Group.Name] = l.now.Add(time.Duration(60+l.random.IntN(240)) * time.Minute)
	for name, left := range l.left {
		if left.gang == gang.Group.Name {
			delete(l.left, name)
		}
	}
	l.waiting, l.owner, l.batch = slices.Delete(l.waiting, i, i+1), 0, nil
	l.placed++
	return true
}

// move makes a move.
func (l *life) move(gang Gang, m *Move) {
	name := m.Replica.Name()
	if last, did := l.moved[name]; did && l.now.Sub(last) < Rest {
		l.Errorf("%s moves again after %s", name, l.now.Sub(last))
	}
	if left, did := l.left[name]; did && slices.ContainsFunc(m.Nodes, func(n string) bool { return slices.Contains(left.hosts, n) }) {
		l.Errorf("%s left %v for %s, which still waits, and moves to %v for %s", name, left.hosts, left.gang, m.Nodes, gang.Group.Name)
	}
	var from []string
	for i := range m.Replica.Pods {
		if host := m.Replica.Pods[i].Node; !slices.Contains(m.Nodes, host) {
			from = append(from, host)
		}
		m.Replica.Pods[i].Node = m.Nodes[i]
	}
	m.Replica.Created, l.moved[name], l.left[name] = l.now, l.now, leaving{gang.Group.Name, from}
	l.moves++
}
