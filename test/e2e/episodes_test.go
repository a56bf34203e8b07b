// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// episodes measure how long things take to recover, by what befell them.
type episodes struct {
	mu    sync.Mutex
	done  map[string][]time.Duration
	times map[string]int
	// struck is what befell a graph last, and when; began, when a graph stopped being as wanted, and by what.
	struck, began map[string]blow
	seen          map[types.UID]bool
	lines         []string
}

type blow struct {
	kind string
	at   time.Time
}

// noticed bounds how much later than a blow its effect on a graph may be seen: a node controller takes a while to delete the pods of a lost node.
const noticed = 2 * time.Minute

func newEpisodes() *episodes {
	return &episodes{done: map[string][]time.Duration{}, times: map[string]int{}, struck: map[string]blow{}, began: map[string]blow{}, seen: map[types.UID]bool{}}
}

// strike notes that something befalls these graphs.
func (e *episodes) strike(kind string, graphs ...string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.times[kind]++
	e.write(fmt.Sprint(kind, " ", graphs))
	for _, name := range graphs {
		e.struck[name] = blow{kind, time.Now()}
	}
}

// took notes how long something took that was measured elsewhere.
func (e *episodes) took(kind string, d time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.times[kind]++
	e.write(fmt.Sprint(kind, " took ", d))
	e.done[kind] = append(e.done[kind], d)
}

// follow begins and ends the episodes of graphs. That of a new graph begins with it.
func (e *episodes) follow(f *facts, now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	there := map[string]bool{}
	for uid, g := range f.graphs {
		name := g.dgd.Name
		there[name] = true
		began, on := e.began[name]
		switch whole := g.whole(); {
		case !whole && !e.seen[uid]:
			e.began[name] = blow{"graph created", now}
			e.times["graph created"]++
		case !whole && !on:
			by, known := e.struck[name]
			if !known || now.Sub(by.at) > noticed {
				by = blow{"other", now}
			}
			e.began[name] = blow{by.kind, now}
			e.write(name + " is not as wanted any more, by: " + by.kind)
		case whole && on:
			e.done[began.kind] = append(e.done[began.kind], now.Sub(began.at))
			delete(e.began, name)
			e.write(name + " is as wanted")
		}
		e.seen[uid] = true
	}
	for name := range e.began {
		if !there[name] {
			delete(e.began, name)
		}
	}
}

// remark adds a line to the journal.
func (e *episodes) remark(line string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.write(line)
}

func (e *episodes) write(line string) {
	e.lines = append(e.lines, time.Now().UTC().Format("15:04:05.000 ")+line)
}

// journal is what was done, a line each.
func (e *episodes) journal() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return strings.Join(e.lines, "\n") + "\n"
}

// table says of each kind how often it happened, and how long it took until things were as wanted again.
func (e *episodes) table() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	var b strings.Builder
	fmt.Fprintf(&b, "%-28s %6s %10s %9s %9s %9s\n", "what happened", "times", "recovered", "median", "9 of 10", "most")
	kinds := map[string]bool{}
	for kind := range e.times {
		kinds[kind] = true
	}
	for kind := range e.done {
		kinds[kind] = true
	}
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		all := slices.Clone(e.done[kind])
		slices.SortFunc(all, cmp.Compare[time.Duration])
		fmt.Fprintf(&b, "%-28s %6d %10d", kind, e.times[kind], len(all))
		if n := len(all); n > 0 {
			fmt.Fprintf(&b, " %8.1fs %8.1fs %8.1fs", all[n/2].Seconds(), all[n*9/10].Seconds(), all[n-1].Seconds())
		}
		b.WriteString("\n")
	}
	return b.String()
}
