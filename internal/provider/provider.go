// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package provider is the interface between the planner, which chooses the place of a gang, and the providers, which enforce this place.
//
// If Trellis creates a provider's pods, the planner places them: it chooses the graph's domain, looks ahead, anchors later replicas, and
// pins each pod to its domain. A Placer enforces the plan. Pods keep the gate trellis.dev/placement until their gang is placed; then
//
//	Prepare     before a pod is created     what only a new pod can be given     (PodGroup: the name of its group)
//	Form        before a gang is released   objects that hold the gang together  (PodGroup: the gang's groups)
//	Release     a pod                       pins added, gate removed, one patch
//	Objections  while pods are not bound    what the provider's scheduler says   (part of the condition Placed)
//	Evict       a pod that cannot bind      deleted, to be planned again
//
// The default provider, Gates, needs only Release and Evict: any kube-scheduler since Kubernetes 1.30 binds released pods by their pins.
//
//	plan: frontend-0 -> zone-a   worker-0-{0..3} -> zone-a/rack-1
//	Gates: nodeSelector {zone: zone-a, rack: rack-1} added, gate trellis.dev/placement removed, one patch per pod
//
// A Workload (Grove) makes the pods itself from the resolved graph. Trellis then plans nothing, and only reads the result.
//
// A Maker (LeaderWorkerSet) makes the pods of multinode replicas, from one object per replica. A Placer still places these pods: it
// prepares the pod templates in the objects, including the gate, and Trellis plans, pins and releases the created pods.
//
// A Registry holds all providers. It checks periodically whether the cluster serves the APIs that each provider needs, and runs a
// provider's informers only while the cluster serves these APIs. While a provider is not ready, Trellis makes no new objects for its
// graphs, and does not touch running pods.
package provider

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/controller/adoption"
	"github.com/trellis-k8s/trellis/internal/gang"
)

// ErrPodGone means that the pod was deleted, was replaced by another pod of the same name, or is terminating.
var ErrPodGone = errors.New("the pod is gone")

// ErrElsewhere means that the pod was already released to another place.
var ErrElsewhere = errors.New("the pod was released to another place")

// ErrPodChanged means that the pod has changed since it was read, and may be bound.
var ErrPodChanged = errors.New("the pod has changed since it was read")

// ErrStale means that a gang cannot be formed with these pods, because immutable objects of an earlier gang prevent it.
var ErrStale = errors.New("objects of an earlier gang are in the way")

// ErrDropped means that the API server dropped fields of a written object.
var ErrDropped = errors.New("the API server dropped what was sent")

// Provider is a way to bind gangs.
type Provider interface {
	// Name is the value in ScalingGroup.spec.engine.
	Name() string
	// Probe checks whether the cluster serves every API that the provider needs, and keeps every field that the provider writes. If Probe
	// returns an error, the registry keeps the former state.
	Probe(ctx context.Context) (State, error)
	// Unsuited returns the reason why the provider cannot place this graph, and the fix; "" if the provider can place it. The result
	// depends on the graph alone.
	Unsuited(groups []*trellisv1alpha1.ScalingGroup) string
	// Watches returns the provider's own kinds to watch, because changes of their objects affect a graph.
	Watches() []Watch
}

// Watch is a watched kind of a provider, with the function that finds an object's graph.
type Watch struct {
	Object client.Object
	// Label selects the objects to watch; nil for all.
	Label labels.Selector
	// Graph returns the deployment of an object; ok is false if the object belongs to no deployment. See TopologyOf for topology objects.
	Graph func(client.Object) (graph types.NamespacedName, ok bool)
}

// TopologyOf is the Graph function for a provider's topology objects. Topology objects belong to no deployment, so TopologyOf returns the
// object's name, without a namespace.
func TopologyOf(o client.Object) (types.NamespacedName, bool) {
	return types.NamespacedName{Name: o.GetName()}, true
}

// State reports whether a provider works in this cluster.
type State struct {
	Ready bool
	// Reason is the reason of the condition ProviderReady. For an unready provider, Message contains the missing requirement and the fix.
	// For a ready provider, Message contains a limitation and its fix; "" for none.
	Reason, Message string
}

// Ready returns the state of a provider without missing requirements or limitations.
func Ready() State { return State{Ready: true, Reason: nvidiav1beta1.ReasonProviderAvailable} }

// Placer enforces the planner's decisions. All calls except Prepare are idempotent.
type Placer interface {
	Provider
	// Prepare completes the new pods of one replica before they are created. made are the replica's existing pods; if there are none, the
	// new pods are a new generation of the replica.
	Prepare(sg *trellisv1alpha1.ScalingGroup, ordinal int32, fresh, made []*corev1.Pod)
	// Kept reports whether the pods of one replica have the fields that Prepare sets, and belong to the same generation. It returns false
	// if the API server dropped a field, or if another provider prepared the pods.
	Kept(pods []*corev1.Pod) bool
	// Form creates the objects that must exist before the gang's first pod is released. It returns ErrStale if the gang cannot be formed
	// with these pods and needs new pods.
	Form(ctx context.Context, of gang.Members) error
	// Release lets the scheduler bind the pod in its place. It returns ErrPodGone if the pod no longer exists, ErrElsewhere if the pod was
	// already released to another place, and nil if it was already released to this place.
	Release(ctx context.Context, pod *corev1.Pod, pin gang.Pin) error
	// Evict undoes the release of a pod that could not be bound. A removed gate cannot be added again, so Evict deletes the pod, which is
	// then recreated. If an unbound pod has changed since it was read, Evict deletes nothing and returns ErrPodChanged.
	Evict(ctx context.Context, pod *corev1.Pod) error
	// Objections returns the scheduler's known objections to a graph's released but unbound pods, by pod UID. unbound contains these pods
	// and is not empty. all are the graph's pods. own reads the kinds of Watches from the cache; it is nil while these kinds are not
	// watched.
	Objections(ctx context.Context, own client.Reader, unbound, all []*corev1.Pod) map[types.UID]gang.Objection
}

// Pinner is a Placer that lets Trellis create the pods of a gang directly in their places. Its specs.Spec sets InPlace.
type Pinner interface {
	// Pin pins a pod that is about to be created and removes Trellis' gate, as Release does for an existing pod.
	Pin(pod *corev1.Pod, pin gang.Pin)
}

// Router is a Placer whose scheduler also places pods without a constraint. Pods without a constraint belong to no gang and have no gate,
// and are created even while the provider is not ready.
type Router interface {
	// Route directs new pods without a gate to the provider's scheduler, before they are created.
	Route(sg *trellisv1alpha1.ScalingGroup, fresh []*corev1.Pod)
}

// Trimmer is a Placer that makes objects with a list of a graph's replicas.
type Trimmer interface {
	// Trim removes replicas without released pods from the objects' lists. pods are all pods of the graph. Trim reads from own first, and
	// writes only if there is a replica to remove.
	Trim(ctx context.Context, own client.Reader, of gang.Members, pods []*corev1.Pod) error
}

// Forgetter is a Placer that keeps state of graphs in memory.
type Forgetter interface {
	// Forget drops the state of a deleted graph.
	Forget(graph types.NamespacedName)
}

// Adopter is a provider that makes objects for a graph in addition to its pods.
type Adopter interface {
	// Adopt adopts the orphaned objects of an earlier graph that had the owner's name.
	Adopt(ctx context.Context, by adoption.Adopter) error
}

// Workload is a provider that makes the pods itself.
type Workload interface {
	Provider
	// Apply writes the workload of a graph from its wanted scaling groups. It does not write objects that are up to date.
	Apply(ctx context.Context, dgd *nvidiav1beta1.DynamoGraphDeployment, groups []*trellisv1alpha1.ScalingGroup) error
	// Observe reads the state of the workload. own reads the kinds of Watches from the cache; it is nil while these kinds are not watched.
	Observe(ctx context.Context, own client.Reader, groups []*trellisv1alpha1.ScalingGroup) (Observation, error)
}

// Maker makes the pods of multinode replicas from its own objects, one per replica. A scaling group that uses the maker names it as its
// workload.
type Maker interface {
	Provider
	// Sets returns the objects of a scaling group by ordinal. own reads the objects from the cache; it is nil while they are not watched.
	Sets(ctx context.Context, own client.Reader, sg *trellisv1alpha1.ScalingGroup) (map[int32]client.Object, error)
	// Make creates the objects of the replicas with these ordinals. It calls prepare on each pod template, so that the placer can complete
	// the template. It does not change existing objects. If the API server drops fields of an object, Make deletes the object and returns
	// ErrDropped.
	Make(ctx context.Context, sg *trellisv1alpha1.ScalingGroup, ordinals []int32, prepare func(ordinal int32, pod *corev1.Pod)) error
	// Unmake deletes the object of a replica, and with it the replica's pods. It returns false if there is no object.
	Unmake(ctx context.Context, sg *trellisv1alpha1.ScalingGroup, ordinal int32) (bool, error)
}

// Observation is the observed state of a workload.
type Observation struct {
	// Counts of replicas by component.
	Counts map[string]Counts
	// Placed reports whether every gang is placed, with Reason and Message for the condition Placed.
	Placed          bool
	Reason, Message string
	// Levels is the provider's report on the topology levels by which the graph is packed; nil if there is no report.
	Levels *Levels
	// Blind: the provider's objects cannot be read now. The caller therefore keeps the former state.
	Blind bool
}

// Levels reports, for the condition TopologyLevelsAvailable, whether a topology's levels are available to a provider.
type Levels struct {
	Available       bool
	Reason, Message string
}

// Counts are the replica counts of one component.
type Counts struct {
	Replicas, Updated, Scheduled, Ready int32
	// Current: the provider has observed the component's wanted template. Before that, Updated counts replicas of an earlier template.
	Current bool
	// RolledOut: Current is true, no pod of an earlier template is left, and all wanted replicas are ready.
	RolledOut bool
}
