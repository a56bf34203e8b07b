// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/graph"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// hold keeps the capacity of a pod that is gone for the pod of the same name that will follow it, so that a replica that is being
// recreated does not lose its domain to a stranger meanwhile (docs/placement.md#when-something-breaks).
type hold struct {
	node  string
	shape *topology.Shape
	graph types.NamespacedName
	until time.Time
}

func (h hold) id(name types.NamespacedName) string { return "hold/" + name.String() }

// holdRoomOf is called with the lock held, while the pod is still counted.
func (s *Scheduler) holdRoomOf(pod *corev1.Pod) {
	sg := s.groupOf(pod)
	if sg == nil || sg.DeletionTimestamp != nil || sg.Spec.Replicas == 0 || !graph.Gated(sg) || !s.willBeFollowed(sg, pod) {
		return
	}
	if _, lost := s.preempted[gangOf(pod)]; lost {
		return // its capacity went to a more important one
	}
	node := pod.Spec.NodeName
	if node == "" && s.promised(pod) { // others freed capacity for it: who gets that now would be preempted for its successor
		node, _ = s.cluster.Reserved(topology.PodID(pod))
	}
	if node == "" {
		return // it never had its capacity for sure: requeued, or never bound
	}
	name := types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
	h := hold{
		node: node, shape: topology.ShapeOf(pod), until: s.options.Clock.Now().Add(s.options.HoldFor),
		graph: types.NamespacedName{Namespace: sg.Namespace, Name: sg.Spec.Graph},
	}
	s.holds[name] = h
	s.cluster.DeletePod(topology.PodID(pod))
	s.cluster.Assume(h.id(name), h.node, h.shape)
	s.queue.wake() // the loop sets its timer by the holds
}

// promised says that others had to free capacity for a released pod: the plan said so, or, before this operator started, the kube-scheduler.
func (s *Scheduler) promised(pod *corev1.Pod) bool {
	return s.preempting[topology.PodID(pod)] || pod.Status.NominatedNodeName != ""
}

// willBeFollowed says that the replica of a pod that is gone will be recreated.
func (s *Scheduler) willBeFollowed(sg *trellisv1alpha1.ScalingGroup, gone *corev1.Pod) bool {
	ordinal, _, ok := graph.ReplicaOf(gone)
	pods := &corev1.PodList{}
	err := s.reader.List(context.Background(), pods, client.InNamespace(sg.Namespace),
		client.MatchingFields{IndexPodsByGraph: gone.Labels[graph.LabelGraph]}, client.UnsafeDisableDeepCopy)
	if !ok || err != nil {
		return false
	}
	group := []*corev1.Pod{gone}
	for i := range pods.Items {
		if graph.Member(&pods.Items[i], sg) && pods.Items[i].UID != gone.UID {
			group = append(group, &pods.Items[i])
		}
	}
	byOrdinal := podsByOrdinal(group)
	byOrdinal[int(ordinal)] = slices.DeleteFunc(byOrdinal[int(ordinal)], func(pod *corev1.Pod) bool { return pod.UID == gone.UID })
	ordinals, _ := ordinalsOf(sg, byOrdinal, 0) // one that had a pod is never beyond
	return slices.Contains(ordinals, int(ordinal))
}

// freeHolds frees the held capacity of the pods that are about to be planned.
func (s *Scheduler) freeHolds(namespace string, v *view) {
	for _, service := range v.graph.Services {
		for _, replica := range service.Waiting {
			for _, pod := range replica.Pods {
				name := types.NamespacedName{Namespace: namespace, Name: pod.Name}
				if h, ok := s.holds[name]; ok {
					s.cluster.Forget(h.id(name))
				}
			}
		}
	}
}

// restoreHolds reserves the held capacity again after a plan that was dropped.
func (s *Scheduler) restoreHolds() {
	for name, h := range s.holds {
		s.cluster.Assume(h.id(name), h.node, h.shape)
	}
}

// endHolds ends the holds of pods that have been planned; whether placed or not, they have had their turn.
func (s *Scheduler) endHolds(v *view) {
	for _, pod := range v.gated {
		delete(s.holds, types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name})
	}
	s.restoreHolds()
}

// dropHolds ends the holds of a graph that is gone.
func (s *Scheduler) dropHolds(graph types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, h := range s.holds {
		if h.graph == graph {
			s.cluster.Forget(h.id(name))
			delete(s.holds, name)
			s.capacityFreed(h.node)
		}
	}
}

// expireHolds frees what was held too long and says when the next hold ends.
func (s *Scheduler) expireHolds() time.Duration {
	now, next := s.options.Clock.Now(), time.Hour
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, h := range s.holds {
		if wait := h.until.Sub(now); wait > 0 {
			next = min(next, wait)
			continue
		}
		s.cluster.Forget(h.id(name))
		delete(s.holds, name)
		s.capacityFreed(h.node)
	}
	for gang, since := range s.preempted {
		if now.Sub(since) > preemptedFor {
			delete(s.preempted, gang)
		}
	}
	s.expireKept(now)
	return next
}
