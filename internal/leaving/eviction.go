// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package leaving

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// AnnotationEviction requests that the replica of a pod moves. The webhook writes the annotation when it refuses an eviction of the pod.
// The operator and kubectl trellis repack --for write it to free a place for a waiting deployment. kubectl trellis repack --free writes it
// as the webhook does.
const AnnotationEviction = "trellis.dev/eviction-requested"

const (
	// EvictionCounts is how long a request is valid if the pod's node was cordoned or leaving at the time of the request, or if the move
	// frees a place. A repeated request extends this time, once the old request is refreshAfter old. A drain repeats its request every few
	// seconds. The operator repeats its request until the place is free.
	EvictionCounts = 5 * time.Minute
	// refreshAfter is the minimum age of a request at which a repeated request writes a new time.
	refreshAfter = time.Minute
)

const (
	ofPod   = "pod"
	ofNode  = "node"
	ofPlace = "place"
)

// Eviction is a request to evict a pod.
type Eviction struct {
	At time.Time
	// WithNode: the pod's node was cordoned or leaving at the time of the request. The request ends when the node is neither cordoned nor
	// leaving any more.
	WithNode bool
	// For is the deployment (namespace/name) for which the move frees a place; "" for a request to evict the pod itself. If For is set, the
	// replica stays until its successor serves.
	For string
	// MaxGPUs limits the GPUs that restart for the deployment; 0: only the operator's limit applies.
	MaxGPUs int64
}

// EvictionOf reads the request to evict a pod; false if the pod has no request, or a request that cannot be parsed.
func EvictionOf(pod *corev1.Pod) (Eviction, bool) {
	of, at, _ := strings.Cut(pod.Annotations[AnnotationEviction], " ")
	at, graph, _ := strings.Cut(at, " ")
	graph, most, bounded := strings.Cut(graph, " ")
	time, err := time.Parse(time.RFC3339, at)
	e := Eviction{At: time, WithNode: of == ofNode, For: graph}
	if err == nil && bounded {
		e.MaxGPUs, err = strconv.ParseInt(most, 10, 64)
	}
	return e, err == nil && e.MaxGPUs >= 0 && (of == ofPlace) == (graph != "") && (of == ofPod || of == ofNode || of == ofPlace)
}

// String returns the value of AnnotationEviction, which EvictionOf reads.
func (e Eviction) String() string {
	at := e.At.UTC().Format(time.RFC3339)
	switch {
	case e.For != "" && e.MaxGPUs > 0:
		return fmt.Sprintf("%s %s %s %d", ofPlace, at, e.For, e.MaxGPUs)
	case e.For != "":
		return ofPlace + " " + at + " " + e.For
	case e.WithNode:
		return ofNode + " " + at
	}
	return ofPod + " " + at
}

// Replaces reports whether a new request must be written over the pod's existing request.
func (e Eviction) Replaces(pod *corev1.Pod) bool {
	before, has := EvictionOf(pod)
	same := before.WithNode == e.WithNode && before.For == e.For && before.MaxGPUs == e.MaxGPUs
	return !has || !same || e.At.Sub(before.At).Abs() >= refreshAfter
}

// Counts reports whether the request is valid, and the time at which it expires if it is not repeated; the zero time if it does not expire.
// closed: the pod's node is cordoned or leaving. A request with a time in the future is valid, because another clock set that time.
func (e Eviction) Counts(now time.Time, closed bool) (counts bool, until time.Time) {
	if !e.WithNode && e.For == "" {
		return true, time.Time{}
	}
	until = e.At.Add(EvictionCounts)
	return (closed || e.For != "") && now.Before(until), until
}
