// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/graph"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// Indexes of the cache that the loop reads by; AddIndexes makes them.
const (
	// IndexPodsByGraph finds the pods of a graph by the value of their graph label.
	IndexPodsByGraph = "trellis.graph"
	// IndexGroupsByGraph finds the scaling groups that a graph's UID owns.
	IndexGroupsByGraph = "trellis.owner"
)

// AddIndexes registers the indexes.
func AddIndexes(ctx context.Context, indexer client.FieldIndexer) error {
	if err := indexer.IndexField(ctx, &corev1.Pod{}, IndexPodsByGraph, func(o client.Object) []string {
		if name := o.GetLabels()[graph.LabelGraph]; name != "" {
			return []string{name}
		}
		return nil
	}); err != nil {
		return fmt.Errorf("indexing pods: %w", err)
	}
	if err := indexer.IndexField(ctx, &trellisv1alpha1.ScalingGroup{}, IndexGroupsByGraph, func(o client.Object) []string {
		if owner := metav1.GetControllerOf(o); owner != nil {
			return []string{string(owner.UID)}
		}
		return nil
	}); err != nil {
		return fmt.Errorf("indexing scaling groups: %w", err)
	}
	return nil
}

// watch subscribes to everything that can unblock a graph and returns once the first list of each kind has been delivered.
func (s *Scheduler) watch(ctx context.Context) error {
	handlers := []struct {
		object  client.Object
		handler toolscache.ResourceEventHandler
	}{
		{&corev1.Node{}, handle(s.nodeSet, s.nodeGone)},
		{&corev1.Pod{}, handle(s.podSet, s.podGone)},
		{&trellisv1alpha1.ScalingGroup{}, handle(each(s.groupEvent), s.groupEvent)},
		{&nvidiav1beta1.DynamoGraphDeployment{}, handle(each(s.graphEvent), s.graphEvent)},
		{&grovev1alpha1.ClusterTopology{}, handle(s.topologySet, func(*grovev1alpha1.ClusterTopology) { s.queue.wakeWaiting() })},
	}
	var synced []toolscache.InformerSynced
	for _, h := range handlers {
		informer, err := s.cache.GetInformer(ctx, h.object)
		if err != nil {
			return fmt.Errorf("watching %T: %w", h.object, err)
		}
		registration, err := informer.AddEventHandler(h.handler)
		if err != nil {
			return fmt.Errorf("watching %T: %w", h.object, err)
		}
		synced = append(synced, registration.HasSynced)
	}
	if !toolscache.WaitForCacheSync(ctx.Done(), synced...) {
		return ctx.Err()
	}
	if err := s.admission.watch(ctx, s.cache); err != nil {
		return err
	}
	return s.watchDevices(ctx)
}

// handle passes an object's old state (nil at first) and new state to set, and its last state to gone.
func handle[T client.Object](set func(old, now T), gone func(T)) toolscache.ResourceEventHandler {
	var none T
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { set(none, obj.(T)) },
		UpdateFunc: func(old, obj any) { set(old.(T), obj.(T)) },
		DeleteFunc: func(obj any) {
			if tombstone, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
				obj = tombstone.Obj
			}
			if object, ok := obj.(T); ok {
				gone(object)
			}
		},
	}
}

func each[T client.Object](set func(T)) func(old, now T) { return func(_, now T) { set(now) } }

func (s *Scheduler) nodeSet(old, node *corev1.Node) {
	if old != nil && sameCapacity(old, node) {
		return // a heartbeat
	}
	s.mu.Lock()
	s.cluster.SetNode(node)
	s.mu.Unlock()
}

// sameCapacity says that two states of a node mean the same to the planner.
func sameCapacity(a, b *corev1.Node) bool {
	return a.Spec.Unschedulable == b.Spec.Unschedulable && topology.Ready(a) == topology.Ready(b) &&
		maps.Equal(a.Labels, b.Labels) && equality.Semantic.DeepEqual(a.Spec.Taints, b.Spec.Taints) &&
		equality.Semantic.DeepEqual(a.Status.Allocatable, b.Status.Allocatable)
}

func (s *Scheduler) nodeGone(node *corev1.Node) {
	s.mu.Lock()
	s.cluster.DeleteNode(node.Name)
	s.mu.Unlock()
}

// podSet counts every pod of the cluster and follows our own ones from gate to node. What it frees is found by the cluster cache.
func (s *Scheduler) podSet(old, pod *corev1.Pod) {
	id, now := topology.PodID(pod), s.options.Clock.Now()
	s.mu.Lock()
	s.holds.trackPreempted(pod, now)
	switch {
	case pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed:
		s.uncount(pod, id)
	case pod.Spec.NodeName != "":
		s.cluster.SetPod(pod)
		s.observeBound(id)
	}
	if pod.Spec.NodeName != "" || !graph.GateClosed(pod) || pod.DeletionTimestamp != nil {
		s.inFlight.visible(id)
	}
	s.trackStuck(pod, id)
	s.idle.track(pod, id, now)
	s.mu.Unlock()
	if old != nil && old.Spec.NodeName == "" && pod.Spec.NodeName != "" {
		s.queue.wakeAbove(topology.PriorityOf(pod), now.Add(time.Second)) // who is bound may be preempted
	}
	s.touchGraphOf(pod)
}

func (s *Scheduler) podGone(pod *corev1.Pod) {
	id := topology.PodID(pod)
	s.mu.Lock()
	s.uncount(pod, id)
	s.inFlight.forget(id)
	s.unbound.forget(id)
	s.idle.gone(id)
	s.mu.Unlock()
	s.touchGraphOf(pod)
}

// uncount ends what a pod takes of its node, if anything: it has ended, or is gone. Its capacity is held from the first of both on, and only
// once: when an ended pod is deleted, others may have the capacity. Called with the lock held.
func (s *Scheduler) uncount(pod *corev1.Pod, id string) {
	if len(gang.NodesOf(s.cluster, id)) > 0 {
		s.holdCapacityOf(pod)
	}
	s.cluster.DeletePod(id)
	s.victimGone(pod)
}

// touchGraphOf asks for a look at the graph the pod belongs to. The scaling group knows the graph's full name; when it is not in the
// cache yet, its own event will do.
func (s *Scheduler) touchGraphOf(pod *corev1.Pod) {
	if sg := s.groupOf(pod); sg != nil {
		s.groupEvent(sg)
	}
}

func (s *Scheduler) groupOf(pod *corev1.Pod) *trellisv1alpha1.ScalingGroup {
	name, uid, ok := graph.GroupOf(pod)
	if !ok {
		return nil
	}
	sg := &trellisv1alpha1.ScalingGroup{}
	if err := s.reader.Get(context.Background(), types.NamespacedName{Namespace: pod.Namespace, Name: name}, sg); err != nil || sg.UID != uid {
		return nil
	}
	return sg
}

func (s *Scheduler) groupEvent(sg *trellisv1alpha1.ScalingGroup) {
	s.queue.add(types.NamespacedName{Namespace: sg.Namespace, Name: sg.Spec.Graph})
}

func (s *Scheduler) graphEvent(dgd *nvidiav1beta1.DynamoGraphDeployment) {
	s.queue.add(client.ObjectKeyFromObject(dgd))
}

// topologySet concerns the graphs that wait: a level may be back. The status says nothing new to them.
func (s *Scheduler) topologySet(old, now *grovev1alpha1.ClusterTopology) {
	if old == nil || old.Generation != now.Generation {
		s.queue.wakeWaiting()
	}
}
