// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// watch subscribes to everything that can unblock a graph and returns once the first list of each kind has been delivered.
func (s *Scheduler) watch(ctx context.Context) error {
	handlers := []struct {
		object  client.Object
		handler toolscache.ResourceEventHandler
	}{
		{&corev1.Node{}, handle(func(old, now *corev1.Node) { s.nodeSet(ctx, old, now) }, s.nodeGone)},
		{&corev1.Pod{}, handle(s.podSet, s.podGone)},
		{&trellisv1alpha1.ScalingGroup{}, handle(each(s.queue.addGroup), s.queue.addGroup)},
		{&nvidiav1beta1.DynamoGraphDeployment{}, handle(each(s.queue.addGraph), s.queue.addGraph)},
		{&grovev1alpha1.ClusterTopology{}, handle(s.topologySet, func(*grovev1alpha1.ClusterTopology) { s.queue.wakeWaiting() })},
	}
	if s.placements.cached != nil {
		handlers = append(handlers, struct {
			object  client.Object
			handler toolscache.ResourceEventHandler
		}{&trellisv1alpha1.GraphPlacement{}, handle(
			func(_, now *trellisv1alpha1.GraphPlacement) { s.placementChanged(now, false) },
			func(gone *trellisv1alpha1.GraphPlacement) { s.placementChanged(gone, true) },
		)})
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
	if err := s.objects.admission.watch(ctx, s.cache); err != nil {
		return err
	}
	if err := s.watchBinders(ctx); err != nil {
		return err
	}
	version := &serverVersion{server: s.options.Server, clock: s.options.Clock,
		set: func(version string) { s.queue.wakeUp(s.ledger.versionIs(version)) }}
	version.watch(ctx)
	devices := &devices{
		cache: s.cache, reader: s.objects.reader, mapper: s.options.Mapper, clock: s.options.Clock,
		serve: func(resources []string) { s.queue.wakeUp(s.ledger.devicesServed(resources)) },
		set:   func(now client.Object) { s.queue.wakeUp(s.ledger.claimSet(now)) },
		gone:  func(gone client.Object) { s.queue.wakeUp(s.ledger.claimGone(gone)) },
		known: s.ledger.devicesKnown,
	}
	return devices.watch(ctx)
}

func (s *Scheduler) nodeGone(node *corev1.Node) { s.touchGraphsOf(s.ledger.nodeGone(node)) }

// placementChanged queues a graph for evaluation if another client has changed or deleted the graph's GraphPlacement.
func (s *Scheduler) placementChanged(object *trellisv1alpha1.GraphPlacement, gone bool) {
	if s.placements.changed(object, gone) {
		s.queue.add(client.ObjectKeyFromObject(object))
	}
}

func each[T client.Object](set func(T)) func(old, now T) { return func(_, now T) { set(now) } }

// nodeSet applies the new state of a node, and queues the graphs with pods planned on the node. If new labels put the node in another
// domain, nodeSet also queues the graphs with pods on the node: their score may change, and pods may be outside their domain.
func (s *Scheduler) nodeSet(ctx context.Context, old, node *corev1.Node) {
	s.touchGraphsOf(s.ledger.nodeChanged(old, node))
	if old == nil || maps.Equal(old.Labels, node.Labels) {
		return
	}
	groups, err := s.objects.groupsOn(ctx, node.Name)
	if err != nil {
		log.FromContext(ctx).Error(err, "looking for the graphs on a node whose labels have changed", "node", node.Name)
		return
	}
	for _, sg := range groups {
		if gang.MovesPods(sg, old.Labels, node.Labels) {
			s.queue.addGroup(sg)
		}
	}
}

// podSet applies the new state of a pod, and queues the pod's graph for evaluation.
func (s *Scheduler) podSet(old, pod *corev1.Pod) {
	if s.options.isPlaceholder(pod) {
		return
	}
	s.touchGraphsOf(s.ledger.podChanged(pod))
	switch soon := s.options.Clock.Now().Add(time.Second); {
	case pod.Spec.NodeName == "":
	case old == nil || old.Spec.NodeName == "":
		s.queue.wakeAbove(topology.PriorityOf(pod), soon) // a bound pod may be preempted
	case !maps.Equal(old.Labels, pod.Labels) || (old.DeletionTimestamp == nil) != (pod.DeletionTimestamp == nil):
		s.queue.wakeAbove(math.MaxInt32, soon) // only for rules about other pods, which count it by its labels until it leaves
	}
	s.touchGraphOf(pod)
}

func (s *Scheduler) podGone(pod *corev1.Pod) {
	if s.options.isPlaceholder(pod) {
		return
	}
	s.ledger.podGone(pod)
	s.touchGraphOf(pod)
}

// touchGraphOf makes the graph of a pod due. The scaling group has the graph's full name. If the group is not in the cache yet, the group's
// own event makes the graph due.
func (s *Scheduler) touchGraphOf(pod *corev1.Pod) {
	if sg := s.objects.groupOf(pod); sg != nil {
		s.queue.addGroup(sg)
	}
}

func (s *Scheduler) touchGraphsOf(pods []*corev1.Pod) {
	for _, pod := range pods {
		s.touchGraphOf(pod)
	}
}

// topologySet wakes the waiting graphs if the spec has changed, since a missing level may exist again. A status change does not concern
// these graphs. topologySet does not compare generations: the spec of a topology from a ClusterTopologyBinding also depends on annotations,
// and a change of annotations does not raise the generation.
func (s *Scheduler) topologySet(old, now *grovev1alpha1.ClusterTopology) {
	if old == nil || !equality.Semantic.DeepEqual(old.Spec, now.Spec) {
		s.queue.wakeWaiting()
	}
}

// watchBinders watches the objects that binders read. It returns once their first lists have been delivered, or after bindersWithin.
func (s *Scheduler) watchBinders(ctx context.Context) error {
	ofVolumes := handle(
		func(_, now client.Object) { s.queue.wakeUp(s.ledger.volumeSet(now)) },
		func(gone client.Object) { s.queue.wakeUp(s.ledger.volumeGone(gone)) },
	)
	namespace := handle(
		func(_, now *corev1.Namespace) { s.queue.wakeUp(s.ledger.namespaceSet(now)) },
		s.ledger.namespaceGone,
	)
	kinds := []struct {
		object  client.Object
		handler toolscache.ResourceEventHandler
	}{
		{&corev1.Namespace{}, namespace},
		{&corev1.PersistentVolumeClaim{}, ofVolumes}, {&corev1.PersistentVolume{}, ofVolumes}, {&storagev1.StorageClass{}, ofVolumes},
		{&storagev1.CSINode{}, ofVolumes}, {&storagev1.CSIDriver{}, ofVolumes}, {&storagev1.CSIStorageCapacity{}, ofVolumes},
	}
	var synced []toolscache.InformerSynced
	for _, kind := range kinds {
		informer, err := s.cache.GetInformer(ctx, kind.object, cache.BlockUntilSynced(false))
		if err != nil {
			return fmt.Errorf("watching %T: %w", kind.object, err)
		}
		registration, err := informer.AddEventHandler(kind.handler)
		if err != nil {
			return fmt.Errorf("watching %T: %w", kind.object, err)
		}
		synced = append(synced, registration.HasSynced)
	}
	s.ledger.bindersKnown(func() bool {
		return !slices.ContainsFunc(synced, func(synced toolscache.InformerSynced) bool { return !synced() })
	})
	first, enough := context.WithTimeout(ctx, bindersWithin)
	defer enough()
	if !toolscache.WaitForCacheSync(first.Done(), synced...) && ctx.Err() == nil {
		log.FromContext(ctx).Info("namespaces, volumes and their claims cannot be read yet; what they say of pods is not counted")
	}
	return nil
}

// bindersWithin is the longest wait for the first lists of the objects that binders read. Until the lists arrive, and without permission to
// read these objects, plans ignore the rules of these objects.
const bindersWithin = 10 * time.Second
