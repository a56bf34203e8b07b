// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"cmp"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/lru"

	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
)

// servedPatience is the factor by which a pod waits longer for a scheduler that is known to bind other pods, because that scheduler may
// have many pods in its queue.
const servedPatience = 10

// servedSchedulers are the names of the latest maxServed schedulers that have bound a pod or reported why it cannot be bound.
type servedSchedulers struct{ names *lru.Cache }

// The maximum number of schedulers that are remembered, and the maximum length of their names in bytes. Both are limited because any user
// who may create pods can invent names.
const (
	maxServed      = 1024
	maxServedBytes = 253
)

func newServedSchedulers() servedSchedulers { return servedSchedulers{lru.New(maxServed)} }

// see adds the scheduler of a pod that is bound or reported as unschedulable.
func (s *servedSchedulers) see(pod *corev1.Pod) {
	if name := schedulerOf(pod); (pod.Spec.NodeName != "" || gang.WhyUnschedulable(pod) != "") && len(name) <= maxServedBytes {
		s.names.Add(name, true)
	}
}

// has reports whether a scheduler has bound or refused a pod, or is a scheduler of Trellis' providers.
func (s *servedSchedulers) has(name string) bool {
	_, seen := s.names.Get(name)
	return seen || name == corev1.DefaultSchedulerName || name == specs.KAI.SchedulerName
}

func schedulerOf(pod *corev1.Pod) string {
	return cmp.Or(pod.Spec.SchedulerName, corev1.DefaultSchedulerName)
}
