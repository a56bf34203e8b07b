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

// servedPatience is how many times as long a pod waits for a scheduler that is known to bind others: it may have many pods to go through.
const servedPatience = 10

// servedSchedulers are the names of the schedulers that have bound a pod or said why not, the latest maxServed ones.
type servedSchedulers struct{ names *lru.Cache }

// Of schedulers that were seen at work as many are remembered, the latest ones, and names of up to so many bytes: anybody who may create
// pods gives names.
const (
	maxServed      = 1024
	maxServedBytes = 253
)

func newServedSchedulers() servedSchedulers { return servedSchedulers{lru.New(maxServed)} }

// see takes in a pod's new state.
func (s *servedSchedulers) see(pod *corev1.Pod) {
	if name := schedulerOf(pod); (pod.Spec.NodeName != "" || gang.WhyUnschedulable(pod) != "") && len(name) <= maxServedBytes {
		s.names.Add(name, true)
	}
}

// has reports whether a scheduler was seen at work, or is one that Trellis itself asks to bind pods.
func (s *servedSchedulers) has(name string) bool {
	_, seen := s.names.Get(name)
	return seen || name == corev1.DefaultSchedulerName || name == specs.KAI.SchedulerName
}

func schedulerOf(pod *corev1.Pod) string {
	return cmp.Or(pod.Spec.SchedulerName, corev1.DefaultSchedulerName)
}
