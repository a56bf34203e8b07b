// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/trellis-k8s/trellis/internal/capacity"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// placeholder reports whether a pod takes nothing from anybody: it is deleted before a gang is released to its node.
func (s *Scheduler) placeholder(pod *corev1.Pod) bool {
	return s.options.Namespace != "" && capacity.IsPlaceholder(pod, s.options.Namespace)
}

// HostsFor lists hosts, by their label kubernetes.io/hostname, that have room for a pod of a shape now: at most so many, the first ones by
// name.
func (s *Scheduler) HostsFor(shape *topology.Shape, most int) []string {
	return s.ledger.hostsFor(shape, most)
}
