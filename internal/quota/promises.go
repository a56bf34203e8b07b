// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Promise contains the selectors and tolerations that Kueue will add, from the flavors, to the pods of a Workload that has quota but is not
// admitted yet. The keys are podset names.
type Promise map[string]Addition

// Addition contains the node labels and tolerations that Kueue adds to each pod of a podset.
type Addition struct {
	NodeSelector map[string]string
	Tolerations  []corev1.Toleration
}

// Promises stores the Workloads that wait for Trellis' AdmissionCheck, so that the scheduler searches for places for their pods before
// Kueue admits the Workloads. The quota controller sets the promises, and the scheduler uses them for its plan. Promises are kept only in
// memory, and are set again after a restart.
type Promises struct {
	mu      sync.Mutex
	byGraph map[types.NamespacedName]Look
	changed func(types.NamespacedName)
}

// Look is one observation of a deployment whose Workloads wait for places. The keys of its maps are Workload names.
type Look struct {
	Promises map[string]Promise
	// Fingerprints identify the pods to place.
	Fingerprints map[string]string
	// Asked: Trellis has asked an autoscaler for nodes.
	Asked bool
	// since is the time at which the search for a place started. The search starts again when the pods change, and when a request to an
	// autoscaler ends.
	since map[string]time.Time
}

// NewPromises returns an empty store.
func NewPromises() *Promises {
	return &Promises{byGraph: map[types.NamespacedName]Look{}, changed: func(types.NamespacedName) {}}
}

// OnChange sets a function that is called with each deployment whose promises change. The store holds no lock during the call. Call
// OnChange before the first Set.
func (p *Promises) OnChange(changed func(types.NamespacedName)) { p.changed = changed }

// Set replaces the observation of a deployment. For each Workload, it returns the time at which the search for a place started. The search
// starts again if the pods change, and when the last request to an autoscaler ends. A nil store keeps nothing.
func (p *Promises) Set(graph types.NamespacedName, l Look, now time.Time) (since map[string]time.Time) {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	before := p.byGraph[graph]
	same := len(l.Promises) == 0 && len(before.Promises) == 0 || reflect.DeepEqual(before.Promises, l.Promises)
	l.since = make(map[string]time.Time, len(l.Promises))
	for name := range l.Promises {
		l.since[name] = now
		if at, known := before.since[name]; known && !before.Asked && !l.Asked && before.Fingerprints[name] == l.Fingerprints[name] {
			l.since[name] = at
		}
	}
	p.byGraph[graph] = l
	p.mu.Unlock()
	if !same {
		p.changed(graph)
	}
	return l.since
}

// Forget removes a deployment that no longer exists.
func (p *Promises) Forget(graph types.NamespacedName) {
	if p == nil {
		return
	}
	p.Set(graph, Look{}, time.Time{})
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.byGraph, graph)
}

// Known reports whether the Workloads of a deployment have been read since the operator started. It is true for a nil store, which has no
// Workloads.
func (p *Promises) Known(graph types.NamespacedName) bool {
	if p == nil {
		return true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	_, known := p.byGraph[graph]
	return known
}

// Of returns the promises for a deployment, by Workload name. A nil store has none.
func (p *Promises) Of(graph types.NamespacedName) map[string]Promise {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.byGraph[graph].Promises)
}

// Fingerprint identifies the pods of a Workload that are held by Kueue alone, and the additions that Kueue will make to these pods. A
// scheduling result with another fingerprint is out of date.
func (p Promise) Fingerprint(workload string, pods []*corev1.Pod) string {
	var uids []string
	for _, pod := range pods {
		if WorkloadOf(pod) == workload && pod.DeletionTimestamp == nil && HeldAlone(pod) {
			uids = append(uids, string(pod.UID))
		}
	}
	slices.Sort(uids)
	raw, _ := json.Marshal(p) // selectors and tolerations always marshal
	return fmt.Sprintf("%s %s", strings.Join(uids, ","), raw)
}

// Admit returns a pod as it will be after Kueue has admitted its Workload. It returns false if the pod's podset has no promise, or if
// another gate also holds the pod.
func (p Promise) Admit(pod *corev1.Pod) (*corev1.Pod, bool) {
	add, promised := p[pod.Annotations[annotationRole]]
	if !promised || !HeldAlone(pod) || pod.DeletionTimestamp != nil {
		return pod, false
	}
	pod = pod.DeepCopy()
	pod.Spec.SchedulingGates = slices.DeleteFunc(pod.Spec.SchedulingGates, func(g corev1.PodSchedulingGate) bool {
		return g.Name == Gate || g.Name == topologyGate
	})
	if pod.Spec.NodeSelector == nil {
		pod.Spec.NodeSelector = map[string]string{}
	}
	maps.Copy(pod.Spec.NodeSelector, add.NodeSelector)
	pod.Spec.Tolerations = append(pod.Spec.Tolerations, add.Tolerations...)
	return pod, true
}
