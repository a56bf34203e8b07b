// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package provider is the seam between deciding where a gang goes and getting it there.
//
// The planner decides under every provider whose pods are Trellis' own: it chooses the graph domain, looks ahead, anchors, and pins each
// pod to its domain. A Placer makes it so. Pods wait with the gate trellis.dev/placement until their gang is placed; then
//
//	Prepare   before a pod is created   what only a new pod can be given     (PodGroup: the name of its group)
//	Form      before a gang is released   objects that hold the gang together  (PodGroup: the gang's groups)
//	Release   a pod                     pins added, gate opened, one patch
//	Objections while pods are not bound  what the provider's scheduler says     (folded into the condition Placed)
//	Evict     a pod that cannot bind    deleted, to be planned again
//
// The default, Gates, needs Release alone: any kube-scheduler since Kubernetes 1.30 does the rest.
//
//	plan: frontend-0 -> zone-a   worker-0-{0..3} -> zone-a/rack-1
//	Gates: nodeSelector {zone: zone-a, rack: rack-1} added, gate trellis.dev/placement removed, one patch a pod
//
// A Workload makes the pods itself from the resolved graph (Grove): Trellis then plans nothing and reads back what has come of it.
//
// A Maker makes the pods of multinode replicas from one object a replica (LeaderWorkerSet), and a Placer gets them placed all the same: its
// objects hold pods as the placer prepares them, gate and all, and Trellis plans, pins and releases what comes of them.
//
// A Registry holds those there are, looks again and again whether the cluster serves what each needs, and runs the informers of their own
// kinds only while it does. While a provider is not ready nothing new is made for its graphs, and nothing that runs is touched.
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

// ErrPodGone states that the pod a decision was about is no longer there: deleted, replaced by another of the same name, or terminating.
var ErrPodGone = errors.New("the pod is gone")

// ErrElsewhere states that the pod was released before, to another place.
var ErrElsewhere = errors.New("the pod was released to another place")

// ErrPodChanged states that the pod has changed since it was read: it may be bound by now.
var ErrPodChanged = errors.New("the pod has changed since it was read")

// ErrStale states that objects of an earlier gang, which cannot be changed, block forming this one with these pods.
var ErrStale = errors.New("objects of an earlier gang are in the way")

// ErrDropped states that the API server did not keep all of an object that was written.
var ErrDropped = errors.New("the API server dropped what was sent")

// Provider is one way of getting gangs onto nodes.
type Provider interface {
	// Name as in ScalingGroup.spec.engine.
	Name() string
	// Probe finds out whether the cluster serves all that the provider needs and keeps every field it writes. An error means that it could
	// not be found out, and leaves what was known.
	Probe(ctx context.Context) (State, error)
	// Unsuited explains why the provider cannot hold this graph together, and the fix; "" when it can. It looks at the graph alone.
	Unsuited(groups []*trellisv1alpha1.ScalingGroup) string
	// Watches are the provider's own kinds whose changes concern a graph.
	Watches() []Watch
}

// Watch is a kind of a provider's own and how to tell whose an object of it is.
type Watch struct {
	Object client.Object
	// Label leaves out objects of others; nil: all are watched.
	Label labels.Selector
	// Graph is the deployment an object belongs to; ok is false for objects of others. See TopologyOf for those of no deployment.
	Graph func(client.Object) (graph types.NamespacedName, ok bool)
}

// TopologyOf is the Graph of a watch of a provider's topology objects. They are of no deployment: it gives their name, without a namespace.
func TopologyOf(o client.Object) (types.NamespacedName, bool) {
	return types.NamespacedName{Name: o.GetName()}, true
}

// State is whether a provider works in this cluster.
type State struct {
	Ready bool
	// Reason of the condition ProviderReady. Message names the missing requirement of an unready provider or the limitation of a ready one,
	// with the fix; "" for a ready provider without limitations.
	Reason, Message string
}

// Ready is the state of a provider that lacks nothing.
func Ready() State { return State{Ready: true, Reason: nvidiav1beta1.ReasonProviderAvailable} }

// Placer enforces the planner's decisions. All calls but Prepare are safe to repeat.
type Placer interface {
	Provider
	// Prepare completes the pods of one replica that are about to be created. made are those that exist already; when none does, this is a
	// new generation of the replica.
	Prepare(sg *trellisv1alpha1.ScalingGroup, ordinal int32, fresh, made []*corev1.Pod)
	// Kept reports whether pods of one replica still are what Prepare made of them, all of one generation: the API server may have dropped
	// a field, or another provider may have made them.
	Kept(pods []*corev1.Pod) bool
	// Form makes what has to exist before the first pod of the gang is released. It returns ErrStale when that takes new pods.
	Form(ctx context.Context, of gang.Members) error
	// Release sends the pod to its place. It returns ErrPodGone when the pod is not there any more, ErrElsewhere when it
	// had been released to another place before, and nil when it had been released to this one.
	Release(ctx context.Context, pod *corev1.Pod, pin gang.Pin) error
	// Evict undoes the release of a pod that could not be bound. A gate cannot be closed again, so the pod is deleted and recreated. It
	// returns ErrPodChanged, and deletes nothing, when a pod that is not bound has changed since it was read.
	Evict(ctx context.Context, pod *corev1.Pod) error
	// Objections are what stands against released pods of a graph that are not bound, by UID; nothing of a pod: nothing is known. unbound is
	// not empty. own reads the kinds of Watches from the cache, nil while they are not watched; all are the pods of the graph.
	Objections(ctx context.Context, own client.Reader, unbound, all []*corev1.Pod) map[types.UID]gang.Objection
}

// Pinner is a Placer whose gangs are created in their places, where its specs.Spec says InPlace.
type Pinner interface {
	// Pin gives a pod that is about to be created its place, and takes Trellis' gate from it: what Release does to one that exists.
	Pin(pod *corev1.Pod, pin gang.Pin)
}

// Router is a Placer whose scheduler places the pods without any constraint, too. They are no gangs and have no gate, and are made whether
// or not the provider is ready.
type Router interface {
	// Route sends pods of a group that is not gated, about to be created, to the provider's scheduler.
	Route(sg *trellisv1alpha1.ScalingGroup, fresh []*corev1.Pod)
}

// Trimmer is a Placer whose objects list the replicas of a graph.
type Trimmer interface {
	// Trim takes replicas off that have no released pod any more. pods are all of the graph. It reads own first and writes only when there is
	// something to take off.
	Trim(ctx context.Context, own client.Reader, of gang.Members, pods []*corev1.Pod) error
}

// Forgetter is a Placer that remembers something of graphs.
type Forgetter interface {
	// Forget a graph that is gone.
	Forget(graph types.NamespacedName)
}

// Adopter is a provider that makes objects for a graph in addition to its pods.
type Adopter interface {
	// Adopt has by adopt those that an earlier graph of its owner's name left without an owner.
	Adopt(ctx context.Context, by adoption.Adopter) error
}

// Workload is a provider that makes the pods itself.
type Workload interface {
	Provider
	// Apply writes the workload of a graph from its scaling groups as they are wanted. What is right already is not written.
	Apply(ctx context.Context, dgd *nvidiav1beta1.DynamoGraphDeployment, groups []*trellisv1alpha1.ScalingGroup) error
	// Observe reads what has come of it. own reads the kinds of Watches from the cache; nil while they are not watched.
	Observe(ctx context.Context, own client.Reader, groups []*trellisv1alpha1.ScalingGroup) (Observation, error)
}

// Maker makes the pods of multinode replicas, of groups that name it as their workload, from objects of its own, one for each replica.
type Maker interface {
	Provider
	// Sets are the objects of a group by ordinal. own reads them from the cache; nil while they are not watched.
	Sets(ctx context.Context, own client.Reader, sg *trellisv1alpha1.ScalingGroup) (map[int32]client.Object, error)
	// Make makes the objects of replicas. prepare completes the pods in them as the placer wants them. An object that is there already is
	// left as it is. It returns ErrDropped when the API server did not keep all of one; then that is deleted again.
	Make(ctx context.Context, sg *trellisv1alpha1.ScalingGroup, ordinals []int32, prepare func(ordinal int32, pod *corev1.Pod)) error
	// Unmake deletes the object of a replica, and with it its pods. It returns false when there is none.
	Unmake(ctx context.Context, sg *trellisv1alpha1.ScalingGroup, ordinal int32) (bool, error)
}

// Observation is what has become of a workload.
type Observation struct {
	// Counts by component.
	Counts map[string]Counts
	// Placed reports whether every gang is placed; Reason and Message go into the condition Placed.
	Placed          bool
	Reason, Message string
	// Levels is the provider's own word on the levels that the graph is packed by; nil while it has given none.
	Levels *Levels
	// Blind: the provider's objects could not be read now. Nothing is known to have changed.
	Blind bool
}

// Levels is whether a provider finds the levels of the topology, for the condition TopologyLevelsAvailable.
type Levels struct {
	Available       bool
	Reason, Message string
}

// Counts are replicas of one component.
type Counts struct {
	Replicas, Updated, Scheduled, Ready int32
	// Current: the provider has taken up the component as it is wanted. Before that, Updated is about an earlier template.
	Current bool
	// RolledOut: it has, nothing of an earlier template is left, and as many replicas as are wanted serve.
	RolledOut bool
}
