// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package leaving

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// AnnotationEviction is on a pod whose eviction was requested and refused, because its replica moves first. The webhook writes it.
const AnnotationEviction = "trellis.dev/eviction-requested"

const (
	// EvictionCounts is how long a request counts that was made while the pod's node was cordoned or left. The webhook writes a new time
	// when the request is repeated; who drains a node repeats it every few seconds.
	EvictionCounts = 5 * time.Minute
	// refreshAfter is the age from which on the webhook writes a new time.
	refreshAfter = time.Minute
)

const (
	ofPod  = "pod"
	ofNode = "node"
)

// Eviction is a request to evict a pod.
type Eviction struct {
	At time.Time
	// WithNode: the node of the pod was cordoned or left. The request ends when it is neither any more.
	WithNode bool
}

// EvictionOf reads the request to evict a pod; false where there is none, or none that can be read.
func EvictionOf(pod *corev1.Pod) (Eviction, bool) {
	of, at, _ := strings.Cut(pod.Annotations[AnnotationEviction], " ")
	time, err := time.Parse(time.RFC3339, at)
	return Eviction{At: time, WithNode: of == ofNode}, err == nil && (of == ofPod || of == ofNode)
}

// String is the value of AnnotationEviction, which EvictionOf reads.
func (e Eviction) String() string {
	of := ofPod
	if e.WithNode {
		of = ofNode
	}
	return of + " " + e.At.UTC().Format(time.RFC3339)
}

// Replaces reports whether a new request is written over the one that the pod has.
func (e Eviction) Replaces(pod *corev1.Pod) bool {
	before, has := EvictionOf(pod)
	return !has || before.WithNode != e.WithNode || e.At.Sub(before.At).Abs() >= refreshAfter
}

// Counts reports whether the request counts, and when it ends if it is not repeated; zero: never. closed: the node of the pod is cordoned
// or leaves. A time in the future is that of another clock, and counts as now.
func (e Eviction) Counts(now time.Time, closed bool) (counts bool, until time.Time) {
	if !e.WithNode {
		return true, time.Time{}
	}
	until = e.At.Add(EvictionCounts)
	return closed && now.Before(until), until
}
