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
func (l *ledger) holdCapacityOf(pod *corev1.Pod) {
	name, followed := l.followed(pod)
	if !followed {
		return
	}
	if l.holds.wasPreempted(gang.Of(pod)) {
		return // its capacity went to a more important one
	}
	node := pod.Spec.NodeName
	if node == "" && l.promised(pod) { // others freed capacity for it: who gets that now would be preempted for its successor
		node, _ = l.cluster.Reserved(topology.PodID(pod))
	}
	if node == "" {
		return // it never had its capacity for sure: requeued, or never bound
	}
	if _, elsewhere := l.holds.byPod[client.ObjectKeyFromObject(pod)]; elsewhere || l.avoided.has(name, gang.Of(pod), node) {
		return // it returns elsewhere
	}
	l.holds.begin(l.cluster, pod, node, name, l.clock.Now())
	l.wakeLoop() // the loop sets its timer by the holds
}

// promised reports whether others had to free capacity for a released pod: the plan said so, or, before this operator started, the
// kube-scheduler.
func (l *ledger) promised(pod *corev1.Pod) bool {
	return l.pods.of(topology.PodID(pod)).preempting || pod.Status.NominatedNodeName != ""
}

// holdRecordedPod holds the recorded host of a pod, if that is in its domain and has capacity.
func (l *ledger) holdRecordedPod(graph types.NamespacedName, one gang.RecordedPod, until time.Time) {
	if !one.Domain.Contains(gang.LevelsOf(one.Group.Spec.Topology).PathOf(l.cluster.NodeLabels(one.Host))) {
		return
	}
	if _, excluded := l.cluster.Why(one.Host, one.Shape); !excluded {
		l.holds.add(l.cluster, one.Name, hold{node: one.Host, shape: one.Shape, graph: graph, until: until})
	}
}

// reservePinned replaces the hold of a pod by a reservation of its host, when another operator has released or created the pod.
func (l *ledger) reservePinned(pod *corev1.Pod, id string) {
	host, name := gang.PinnedHost(pod), client.ObjectKeyFromObject(pod)
	if _, has := l.cluster.Reserved(id); has || l.pods.of(id).unreserved != "" || l.cluster.NodeLabels(host) == nil {
		return
	}
	if _, held := l.holds.byPod[name]; held {
		l.cluster.Forget(holdID(name))
		delete(l.holds.byPod, name)
	}
	l.cluster.AssumePinned(id, host, topology.ShapeOf(pod), pod.Spec.NodeSelector)
}
