// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
)

// retryAfter is the delay before a graph is evaluated again after an operation for the graph has failed.
const retryAfter = time.Second

// queue holds the graphs to evaluate, each graph once and optionally with an earliest time. It never loses a graph: a graph that is added
// during its evaluation is taken again in the next round.
type queue struct {
	mu sync.Mutex
	// due are the graphs to evaluate now. taken are the graphs that [queue.take] has returned and that are not evaluated yet. The values
	// are the causes.
	due, taken map[types.NamespacedName]*cause
	later      map[types.NamespacedName]time.Time
	// waiting are the graphs with gangs that did not fit; freed capacity that such a graph may use makes the graph due.
	waiting map[types.NamespacedName]waiting
	signal  chan struct{}
}

// cause is the condition for the evaluation of a graph: always, or only if the graph may use capacity that has become free on the nodes.
type cause struct {
	always bool
	nodes  []string
}

// maxCauses is the maximum number of nodes in a cause. A graph with more freed nodes is always evaluated. A cause can collect many nodes
// while the graph waits for its evaluation.
const maxCauses = 64

// freed adds a node on which capacity has become free.
func (c *cause) freed(node string) {
	switch {
	case c.always || slices.Contains(c.nodes, node):
	case len(c.nodes) == maxCauses:
		c.always, c.nodes = true, nil
	default:
		c.nodes = append(c.nodes, node)
	}
}

// join adds another cause of the same graph.
func (c *cause) join(other *cause) {
	if other.always {
		c.always, c.nodes = true, nil
	}
	for _, node := range other.nodes {
		c.freed(node)
	}
}

func newQueue() *queue {
	return &queue{
		due: map[types.NamespacedName]*cause{}, taken: map[types.NamespacedName]*cause{},
		later: map[types.NamespacedName]time.Time{}, waiting: map[types.NamespacedName]waiting{},
		signal: make(chan struct{}, 1),
	}
}

// add makes a graph due now.
func (q *queue) add(name types.NamespacedName) {
	q.mu.Lock()
	q.causeOf(name).always = true
	q.mu.Unlock()
	q.wake()
}

// causeOf returns the cause of a graph, and makes the graph due. Called with the lock held.
func (q *queue) causeOf(name types.NamespacedName) *cause {
	if q.due[name] == nil {
		q.due[name] = &cause{}
	}
	return q.due[name]
}

// addAt makes a graph due at a time; the earliest time wins.
func (q *queue) addAt(name types.NamespacedName, at time.Time) {
	q.mu.Lock()
	if old, ok := q.later[name]; !ok || at.Before(old) {
		q.later[name] = at
	}
	q.mu.Unlock()
	q.wake()
}

// retry makes a graph due shortly after now, because an operation for the graph failed.
func (q *queue) retry(name types.NamespacedName, now time.Time) { q.addAt(name, now.Add(retryAfter)) }

// addGroup makes the graph of a scaling group due now.
func (q *queue) addGroup(sg *trellisv1alpha1.ScalingGroup) {
	q.add(types.NamespacedName{Namespace: sg.Namespace, Name: sg.Spec.Graph})
}

// addGraph makes a graph due now.
func (q *queue) addGraph(dgd *nvidiav1beta1.DynamoGraphDeployment) {
	q.add(client.ObjectKeyFromObject(dgd))
}

// wakeUp requeues the graphs that an event or a decision concerns.
func (q *queue) wakeUp(w wake) {
	for _, name := range w.now {
		q.add(name)
	}
	for _, later := range w.later {
		q.addAt(later.graph, later.at)
	}
	if w.waiting {
		q.wakeWaiting()
	}
	if w.ruled {
		q.wakeRuled()
	}
}

// wakeWaiting wakes every graph that waits for capacity.
func (q *queue) wakeWaiting() {
	q.mu.Lock()
	for name := range q.waiting {
		q.causeOf(name).always = true
	}
	some := len(q.waiting) > 0
	q.mu.Unlock()
	if some {
		q.wake()
	}
}

// wakeRuled wakes every waiting graph whose refused gangs are restricted by rules about other pods, or by volumes.
func (q *queue) wakeRuled() {
	q.mu.Lock()
	some := false
	for name, w := range q.waiting {
		if w.ruled {
			q.causeOf(name).always, some = true, true
		}
	}
	q.mu.Unlock()
	if some {
		q.wake()
	}
}

// wakeFor wakes every waiting graph that may use the freed capacity of a node, and makes the other waiting graphs due at a later time.
func (q *queue) wakeFor(node string, later time.Time, mayUse func(types.NamespacedName, waiting) bool) {
	q.mu.Lock()
	for name, w := range q.waiting {
		if c := q.due[name]; c != nil && (c.always || slices.Contains(c.nodes, node)) {
			continue
		}
		if mayUse(name, w) {
			q.causeOf(name).freed(node)
		} else if at, ok := q.later[name]; !ok || later.Before(at) {
			q.later[name] = later
		}
	}
	q.mu.Unlock()
}

// cause removes a graph from the taken graphs. It returns the nodes of the graph's cause, and whether to evaluate the graph in any case.
func (q *queue) cause(name types.NamespacedName) (nodes []string, always bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	c := q.taken[name]
	delete(q.taken, name)
	if c != nil {
		return c.nodes, c.always
	}
	return nil, true
}

func (q *queue) waitingFor(name types.NamespacedName) (w waiting, waits bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	w, waits = q.waiting[name]
	return w, waits
}

// wakeAbove makes waiting graphs due at a time: the graphs that would preempt a pod of the given priority, and the graphs that are
// restricted by volumes or by rules about other pods.
func (q *queue) wakeAbove(priority int32, at time.Time) {
	q.mu.Lock()
	some := false
	for name, w := range q.waiting {
		if old, ok := q.later[name]; (w.preemptsBelow > priority || w.ruled) && (!ok || at.Before(old)) {
			q.later[name] = at
			some = true
		}
	}
	q.mu.Unlock()
	if some {
		q.wake()
	}
}

// setWaiting adds a graph to the waiting graphs if waits is true, and removes it otherwise. w describes the capacity that the graph waits
// for.
func (q *queue) setWaiting(name types.NamespacedName, waits bool, w waiting) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if waits {
		q.waiting[name] = w
	} else {
		delete(q.waiting, name)
	}
	graphsWaiting.Set(float64(len(q.waiting)))
}

func (q *queue) drop(name types.NamespacedName) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.waiting, name)
	delete(q.later, name)
	delete(q.taken, name)
	graphsWaiting.Set(float64(len(q.waiting)))
}

func (q *queue) wake() {
	select {
	case q.signal <- struct{}{}:
	default:
	}
}

// take removes and returns the graphs that are due at now, and returns the time until the next graph is due.
func (q *queue) take(now time.Time) (due []types.NamespacedName, next time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	next = time.Hour
	for name, at := range q.later {
		if wait := at.Sub(now); wait > 0 {
			next = min(next, wait)
			continue
		}
		q.causeOf(name).always = true
		delete(q.later, name)
	}
	for name, c := range q.due {
		due = append(due, name)
		if before := q.taken[name]; before != nil { // still in line
			c.join(before)
		}
		q.taken[name] = c
	}
	clear(q.due)
	return due, next
}
