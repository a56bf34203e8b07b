// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scalinggroup

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/limit"
	"github.com/trellis-k8s/trellis/internal/render"
)

// This file decides when an update may count a new worker as available. The runtime in a worker's pod publishes a DynamoWorkerMetadata
// after the pod becomes Ready. A frontend sends requests to the worker only after it has read this object. So a new replica is available
// when all its pods are Ready and its first pod, which has the endpoints, has published its metadata.
//
// Not every runtime publishes metadata. An update waits for metadata only if the pods discover each other through Kubernetes and a replica
// of the component has published metadata. Outside of updates and moves, Ready is enough.
//
// The operator reads only the owners of a DynamoWorkerMetadata, never its content: see strip.Owned.

// indexMetadataByPod indexes DynamoWorkerMetadatas by the UID of the pod that published them.
const indexMetadataByPod = "trellis.metadata.pod"

// workerMetadata returns an empty object with which the client reads and caches only the object metadata of DynamoWorkerMetadatas.
func workerMetadata() *metav1.PartialObjectMetadata {
	out := &metav1.PartialObjectMetadata{}
	out.SetGroupVersionKind(nvidiav1alpha1.GroupVersion.WithKind("DynamoWorkerMetadata"))
	return out
}

// publishers returns the owner references of a DynamoWorkerMetadata that name pods. After a replacement in place, a pod may for a while
// also own its predecessor's DynamoWorkerMetadata.
func publishers(object client.Object) []metav1.OwnerReference {
	return slices.DeleteFunc(slices.Clone(object.GetOwnerReferences()), func(owner metav1.OwnerReference) bool {
		return owner.Kind != "Pod" || owner.APIVersion != corev1.SchemeGroupVersion.String()
	})
}

// watchMetadata triggers a reconcile of a group when one of its pods has published its metadata. Changes of the metadata's content trigger
// no reconcile.
func (r *Reconciler) watchMetadata(ctx context.Context, mgr ctrl.Manager, b *builder.Builder) error {
	err := mgr.GetFieldIndexer().IndexField(ctx, workerMetadata(), indexMetadataByPod, func(o client.Object) []string {
		var uids []string
		for _, owner := range publishers(o) {
			uids = append(uids, string(owner.UID))
		}
		return uids
	})
	if err != nil {
		return fmt.Errorf("indexing DynamoWorkerMetadatas by pod: %w", err)
	}
	appeared := predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool {
			return !slices.EqualFunc(publishers(e.ObjectOld), publishers(e.ObjectNew), sameOwner)
		},
		DeleteFunc: func(event.DeleteEvent) bool { return false }, GenericFunc: func(event.GenericEvent) bool { return false },
	}
	b.WatchesMetadata(workerMetadata(), handler.EnqueueRequestsFromMapFunc(r.groupOfMetadata), builder.WithPredicates(appeared))
	return nil
}

func (r *Reconciler) groupOfMetadata(ctx context.Context, object client.Object) []reconcile.Request {
	var out []reconcile.Request
	for _, owner := range publishers(object) {
		pod := &corev1.Pod{}
		// a pod that the cache does not show yet triggers a reconcile when it appears
		if err := r.Client.Get(ctx, types.NamespacedName{Namespace: object.GetNamespace(), Name: owner.Name}, pod); err == nil {
			out = append(out, groupOf(ctx, pod)...)
		}
	}
	return out
}

func sameOwner(a, b metav1.OwnerReference) bool { return a.UID == b.UID }

// lookForMetadata marks the replicas of the current revision that an update must not count as available, because they have not published
// their metadata. For each replica's first pod it lists at most one DynamoWorkerMetadata, because only its existence matters.
func (p *pass) lookForMetadata(ctx context.Context) error {
	if !expectsMetadata(p.sg, p.replicas) {
		return nil
	}
	published := map[int32]bool{}
	for ordinal, one := range p.replicas {
		pod := one.pods[0]
		if pod == nil {
			continue
		}
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(nvidiav1alpha1.GroupVersion.WithKind("DynamoWorkerMetadataList"))
		of := client.MatchingFields{indexMetadataByPod: string(pod.UID)}
		if err := p.Client.List(ctx, list, client.InNamespace(pod.Namespace), of, client.Limit(1)); err != nil {
			return fmt.Errorf("listing the DynamoWorkerMetadatas of pod %s: %w", pod.Name, err)
		}
		published[ordinal] = len(list.Items) > 0
	}
	markUnpublished(p.replicas, published)
	return nil
}

// expectsMetadata reports whether replicas are expected to publish their metadata: the workers discover each other through Kubernetes, and
// either an update replaces their generation or replicas move.
func expectsMetadata(sg *trellisv1alpha1.ScalingGroup, replicas map[int32]*replica) bool {
	if render.GenerationOf(sg) == "" || !render.DiscoversThroughKubernetes(&sg.Spec.Roles[0].Template) {
		return false
	}
	if meta.IsStatusConditionFalse(sg.Status.Conditions, trellisv1alpha1.ConditionRolledOut) || len(sg.Status.Moves) > 0 {
		return true
	}
	for _, one := range replicas {
		if one.outdated {
			return true
		}
	}
	return false
}

// markUnpublished marks the replicas of the current revision that have not published their metadata, if at least one replica of the
// component has published its metadata.
func markUnpublished(replicas map[int32]*replica, published map[int32]bool) {
	if !slices.Contains(slices.Collect(maps.Values(published)), true) {
		return
	}
	for ordinal, one := range replicas {
		if !one.outdated && !published[ordinal] {
			one.notAccepted = "has not published its DynamoWorkerMetadata"
		}
	}
}

// available reports whether every pod is Ready and frontends can find the replica.
func (r *replica) available() bool { return r.all(render.PodReady) && r.notAccepted == "" }

// notAvailable lists the bound replicas of the current revision that are not available. For each replica it names the pod that is the
// cause, the reason, and since when.
func notAvailable(replicas map[int32]*replica) []string {
	var out []string
	for _, ordinal := range sortedOrdinals(replicas) {
		one := replicas[ordinal]
		if one.outdated || !one.whole() || !one.all(podBound) || one.available() {
			continue
		}
		out = append(out, one.whyNotAvailable())
	}
	return limit.First(out, maxNamed, "replicas")
}

func (r *replica) whyNotAvailable() string {
	for _, index := range r.indexes() {
		pod := r.pods[index]
		if render.PodReady(pod) {
			continue
		}
		text := fmt.Sprintf("pod %s is not Ready%s", pod.Name, since(pod))
		if why := r.whyNotReady(pod); why != "" {
			text += ": " + why
		}
		return text
	}
	pod := r.pods[0]
	return fmt.Sprintf("pod %s is Ready%s and %s", pod.Name, since(pod), r.notAccepted)
}

// since returns a phrase with the time at which the pod's condition Ready last changed; "" without the condition.
func since(pod *corev1.Pod) string {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady && !c.LastTransitionTime.IsZero() {
			return " since " + c.LastTransitionTime.UTC().Format(time.RFC3339)
		}
	}
	return ""
}
