// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"maps"
	"reflect"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Promise is what Kueue will add to the pods of a Workload that has quota and is not admitted yet, by podset: what their flavors say.
type Promise map[string]Addition

// Addition is what is added to a pod.
type Addition struct {
	NodeSelector map[string]string
	Tolerations  []corev1.Toleration
}

// Promises are the Workloads whose place is looked for before Kueue admits them: those that wait for the AdmissionCheck of Trellis. The
// controller that reads Workloads sets them, and the scheduler plans by them. They live in memory, and are set anew after a start.
type Promises struct {
	mu      sync.Mutex
	byGraph map[types.NamespacedName]map[string]Promise
	changed func(types.NamespacedName)
}

// NewPromises returns none.
func NewPromises() *Promises {
	return &Promises{byGraph: map[types.NamespacedName]map[string]Promise{}, changed: func(types.NamespacedName) {}}
}

// OnChange has a function called, outside any lock, with a deployment whose promises have changed. It is to be called before the first Set.
func (p *Promises) OnChange(changed func(types.NamespacedName)) { p.changed = changed }

// Set replaces the promises of a deployment, by Workload. A nil store keeps none.
func (p *Promises) Set(graph types.NamespacedName, promises map[string]Promise) {
	if p == nil {
		return
	}
	p.mu.Lock()
	same := len(promises) == 0 && len(p.byGraph[graph]) == 0 || reflect.DeepEqual(p.byGraph[graph], promises)
	if len(promises) == 0 {
		delete(p.byGraph, graph)
	} else {
		p.byGraph[graph] = promises
	}
	p.mu.Unlock()
	if !same {
		p.changed(graph)
	}
}

// Of are the promises to a deployment. A nil store has none.
func (p *Promises) Of(graph types.NamespacedName) map[string]Promise {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.byGraph[graph])
}

// Admit returns a pod as it will be once Kueue has admitted its Workload; false where its podset has no promise, or another gate holds it,
// too.
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
