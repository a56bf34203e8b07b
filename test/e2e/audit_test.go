// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

// eventually is how long, under faults, an object may contradict the facts: a client of a restarted API server waits up to a minute before it
// tries again, and what is deleted goes in several steps.
var eventually = suite.Patience() * 3 / 5

// auditor follows a world of many graphs as the API server shows it. Of the operator's code it knows the labels of pods. Its observer checks
// gangs, graph domains and hosts at every change of a pod, and that nothing moves, as no one asks for it; what may be wrong for a while is
// compared with the facts in look.
type auditor struct {
	observer *observer

	mu     sync.Mutex
	dgds   map[types.UID]*nvidiav1beta1.DynamoGraphDeployment
	groups map[types.UID]types.UID // from scaling groups to their graphs
	nodes  map[string]*corev1.Node
	// changes counts the changes of all objects that were seen; lastChange names the last of them.
	changes    int
	lastChange string
	// since when something contradicts the facts, and broken what did so for longer than eventually, in the order in which that was seen.
	since    map[string]time.Time
	broken   []string
	episodes *episodes
}

// audit starts an auditor of the world's graphs on these hosts.
func (w *world) audit(raw client.WithWatch, hosts []host) *auditor {
	w.t.Helper()
	a := w.newAuditor(hosts)
	here := []client.ListOption{client.InNamespace(w.name)}
	follow(w.t, &mirror[*trellisv1alpha1.ScalingGroup]{c: raw, list: &trellisv1alpha1.ScalingGroupList{}, options: here, see: a.seeGroup})
	follow(w.t, &mirror[*nvidiav1beta1.DynamoGraphDeployment]{c: raw, list: &nvidiav1beta1.DynamoGraphDeploymentList{}, options: here, see: a.seeGraph})
	follow(w.t, &mirror[*corev1.Node]{c: raw, list: &corev1.NodeList{}, options: []client.ListOption{client.MatchingLabels{poolKey: w.name}}, see: a.seeNode})
	a.observer.start(raw)
	return a
}

func (w *world) newAuditor(hosts []host) *auditor {
	a := &auditor{
		observer: w.newObserver(), dgds: map[types.UID]*nvidiav1beta1.DynamoGraphDeployment{}, groups: map[types.UID]types.UID{},
		nodes: map[string]*corev1.Node{}, since: map[string]time.Time{}, episodes: newEpisodes(),
	}
	a.observer.oneZone, a.observer.hosts = true, map[string]host{}
	for _, h := range hosts {
		a.observer.hosts[w.node(h.name)] = h
	}
	a.observer.graphOf = func(pod *corev1.Pod) string { return string(a.graphOf(pod)) }
	a.observer.deployment = func(pod *corev1.Pod) *nvidiav1beta1.DynamoGraphDeployment {
		uid := a.graphOf(pod)
		a.mu.Lock()
		defer a.mu.Unlock()
		return a.dgds[uid]
	}
	a.observer.also = func(pod *corev1.Pod) { a.changed("pod", pod) }
	a.observer.noMoves = true
	return a
}

// follow starts a mirror that ends with the test.
func follow[T client.Object](t testing.TB, m *mirror[T]) {
	t.Helper()
	stop, err := m.start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
}

func (a *auditor) seeGroup(event watch.EventType, sg *trellisv1alpha1.ScalingGroup) {
	a.mu.Lock()
	a.groups[sg.UID] = ownerOf(sg) // kept when the group is gone: its pods may not be
	a.mu.Unlock()
	a.observer.seeMoves(event, sg)
	a.changed("scaling group "+string(event), sg)
}

func (a *auditor) seeGraph(event watch.EventType, dgd *nvidiav1beta1.DynamoGraphDeployment) {
	a.mu.Lock()
	if event == watch.Deleted {
		delete(a.dgds, dgd.UID)
	} else {
		a.dgds[dgd.UID] = dgd
	}
	a.mu.Unlock()
	a.changed("graph "+string(event), dgd)
}

func (a *auditor) seeNode(event watch.EventType, node *corev1.Node) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if event == watch.Deleted {
		if held := a.nodes[node.Name]; held != nil && held.UID == node.UID {
			delete(a.nodes, node.Name)
		}
		return
	}
	a.nodes[node.Name] = node
}

func (a *auditor) changed(kind string, o client.Object) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.changes++
	a.lastChange = kind + " " + o.GetName() + " " + o.GetResourceVersion()
}

// written is how many changes there were, and the last of them.
func (a *auditor) written() (int, string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.changes, a.lastChange
}

// graphOf is the UID of a pod's graph, "" while its scaling group was not seen.
func (a *auditor) graphOf(pod *corev1.Pod) types.UID {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.groups[ownerOf(pod)]
}

// look compares what is said with the facts, and returns what contradicts them now, in alphabetical order.
func (a *auditor) look(now time.Time) []string {
	f := a.facts()
	found := f.contradictions()
	a.observer.mu.Lock()
	a.observer.overdue(now)
	a.observer.mu.Unlock()
	a.mu.Lock()
	defer a.mu.Unlock()
	for what := range a.since {
		if !slices.Contains(found, what) {
			delete(a.since, what)
		}
	}
	for _, what := range found {
		since, known := a.since[what]
		switch {
		case !known:
			a.since[what] = now
		case now.Sub(since) > eventually:
			if said := fmt.Sprintf("for longer than %s: %s", eventually, what); !slices.Contains(a.broken, said) {
				a.broken = append(a.broken, said)
				a.episodes.remark("an invariant is broken " + said)
			}
		}
	}
	a.episodes.follow(f, now)
	return found
}

// violations are the invariants broken so far.
func (a *auditor) violations() []string {
	failed := a.observer.failed()
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Concat(failed, a.broken)
}

// facts are the state of everything at one moment.
func (a *auditor) facts() *facts {
	a.observer.mu.Lock()
	pods := slices.Collect(maps.Values(a.observer.pods))
	a.observer.mu.Unlock()
	f := &facts{hosts: a.observer.hosts, place: a.observer.place, graphs: map[types.UID]*graphFacts{}, graphOf: map[types.UID]types.UID{}, taken: map[string]int{}}
	a.mu.Lock()
	defer a.mu.Unlock()
	f.nodes = maps.Clone(a.nodes)
	for uid, dgd := range a.dgds {
		f.graphs[uid] = &graphFacts{dgd: dgd}
	}
	for _, pod := range pods {
		f.graphOf[pod.UID] = a.groups[ownerOf(pod)]
		f.add(pod)
	}
	return f
}

// graphsOn are the names of the graphs that have pods on a node.
func (a *auditor) graphsOn(node string) (names []string) {
	for _, pod := range a.podsInOrder() {
		if pod.Spec.NodeName == node {
			names = append(names, pod.Labels[render.LabelGraph])
		}
	}
	return names
}

// podsInOrder are all pods, by name.
func (a *auditor) podsInOrder() []*corev1.Pod {
	a.observer.mu.Lock()
	defer a.observer.mu.Unlock()
	return slices.SortedFunc(maps.Values(a.observer.pods), func(p, q *corev1.Pod) int { return cmp.Compare(p.Name, q.Name) })
}
