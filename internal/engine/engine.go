// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package engine names what gets a gang onto nodes, and the seam between deciding a place and enforcing it.
//
// The planner decides where each pod of a gang goes; a Placer makes it so. The default, Gates, pins pods that wait behind a scheduling
// gate to their domain and opens the gate, so that any kube-scheduler since Kubernetes 1.30 does the rest:
//
//	plan: frontend-0 -> zone-a   worker-0-{0..3} -> zone-a/rack-1
//	Gates: nodeSelector {zone: zone-a, rack: rack-1} added, gate trellis.dev/placement removed, one patch a pod
package engine

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
)

// Names of the engines, as in ScalingGroup.spec.engine.
const (
	Gates = "Gates"
)

// ErrPodGone says that the pod a decision was about is no longer there: deleted, replaced by another of the same name, or terminating.
var ErrPodGone = errors.New("the pod is gone")

// Pin is the place of one pod.
type Pin struct {
	// Gang the pod is released with.
	Gang string
	// Labels every node of its domain carries: the whole path from the broadest level down.
	Labels map[string]string
	// Node is the planned host, when the scheduler must not pick another one; else empty.
	Node string
}

// Placer enforces the planner's decisions. Both calls are safe to repeat.
type Placer interface {
	// Release sends the pod to its place. It returns ErrPodGone when the pod is not there any more, and nil when the pod had been released before.
	Release(ctx context.Context, pod *corev1.Pod, pin Pin) error
	// TakeBack undoes the release of a pod that could not be bound. A gate cannot be closed again, so the pod is deleted and made anew.
	TakeBack(ctx context.Context, pod *corev1.Pod) error
}
