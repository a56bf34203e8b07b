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

// holdCapacityOf holds the capacity of a deleted or terminated pod for the pod's successor. It is called while the cluster cache still
// counts the pod.
func (s *state) holdCapacityOf(pod *corev1.Pod) {
	name, followed := s.followed(pod)
	if !followed {
		return
	}
	if s.holds.wasPreempted(gang.Of(pod)) {
		return // a pod of higher priority got its capacity
	}
	node := pod.Spec.NodeName
	// Other pods were preempted for this pod. A third pod that took the capacity now would be preempted for the successor.
	if node == "" && s.preempts(topology.PodID(pod), pod) {
		node, _ = s.cluster.Reserved(topology.PodID(pod))
	}
	if node == "" {
		return // its capacity was never certain: its gang was requeued, or it was not bound
	}
	if _, elsewhere := s.holds.byPod[client.ObjectKeyFromObject(pod)]; elsewhere || s.avoided.has(name, gang.Of(pod), node) {
		return // its successor is placed elsewhere
	}
	s.holds.begin(s.cluster, pod, node, name, s.clock.Now())
	s.wakeLoop() // the loop sets its timer by the holds
}

// holdRecordedPod holds the recorded host of a pod, if the host is in the recorded domain and has capacity.
func (s *state) holdRecordedPod(graph types.NamespacedName, one gang.RecordedPod, until time.Time) {
	if !one.Domain.Contains(gang.LevelsOf(one.Group.Spec.Topology).PathOf(s.cluster.NodeLabels(one.Host))) {
		return
	}
	if _, excluded := s.cluster.Why(one.Host, one.Shape); !excluded {
		s.holds.add(s.cluster, one.Name, hold{node: one.Host, shape: one.Shape, graph: graph, until: until})
	}
}

// reservePinned reserves capacity for a pod on the host to which the pod is pinned, because another operator has released or created the
// pod. The reservation replaces a hold for the pod.
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
