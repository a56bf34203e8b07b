// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// holdCapacityOf holds what a pod takes, which is still counted.
func (s *state) holdCapacityOf(pod *corev1.Pod) {
	name, followed := s.followed(pod)
	if !followed {
		return
	}
	if s.holds.wasPreempted(gang.Of(pod)) {
		return // its capacity went to a more important one
	}
	node := pod.Spec.NodeName
	// others freed capacity for it: who gets that now would be preempted for its successor
	if node == "" && s.preempts(topology.PodID(pod), pod) {
		node, _ = s.cluster.Reserved(topology.PodID(pod))
	}
	if node == "" {
		return // it never had its capacity for sure: requeued, or never bound
	}
	if _, elsewhere := s.holds.byPod[client.ObjectKeyFromObject(pod)]; elsewhere || s.avoided.has(name, gang.Of(pod), node) {
		return // it returns elsewhere
	}
	s.holds.begin(s.cluster, pod, node, name, s.clock.Now())
	s.wakeLoop() // the loop sets its timer by the holds
}

// holdRecordedPod holds the recorded host of a pod, if that is in its domain and has capacity.
func (s *state) holdRecordedPod(graph types.NamespacedName, one gang.RecordedPod, until time.Time) {
	if !one.Domain.Contains(gang.LevelsOf(one.Group.Spec.Topology).PathOf(s.cluster.NodeLabels(one.Host))) {
		return
	}
	if _, excluded := s.cluster.Why(one.Host, one.Shape); !excluded {
		s.holds.add(s.cluster, one.Name, hold{node: one.Host, shape: one.Shape, graph: graph, until: until})
	}
}

// reservePinned replaces the hold of a pod by a reservation of its host, when another operator has released or created the pod.
func (s *state) reservePinned(pod *corev1.Pod, id string) {
	host, name := gang.PinnedHost(pod), client.ObjectKeyFromObject(pod)
	if _, has := s.cluster.Reserved(id); has || s.pods.of(id).unreserved != "" || s.cluster.NodeLabels(host) == nil {
		return
	}
	if _, held := s.holds.byPod[name]; held {
		s.cluster.Forget(holdID(name))
		delete(s.holds.byPod, name)
	}
	s.cluster.AssumePinned(id, host, topology.ShapeOf(pod), pod.Spec.NodeSelector)
}
