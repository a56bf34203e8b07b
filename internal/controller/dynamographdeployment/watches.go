// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package dynamographdeployment

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/controller/blocked"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/scheduler"
)

// PoolDefinition is the name of the CustomResourceDefinition of InferencePools, which may be installed after Trellis.
const PoolDefinition = "inferencepools.inference.networking.k8s.io"

// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,resourceNames=inferencepools.inference.networking.k8s.io,verbs=list;watch

// watchExtras watches the prerequisites of deployments, and the objects of deployments other than scaling groups. A shared object has
// several deployments as owners.
func (r *Reconciler) watchExtras(mgr ctrl.Manager, b *builder.Builder) {
	owners := handler.EnqueueRequestForOwner(mgr.GetScheme(), mgr.GetRESTMapper(), &nvidiav1beta1.DynamoGraphDeployment{})
	for _, kind := range []client.Object{
		&corev1.Service{}, &corev1.ServiceAccount{}, &corev1.ConfigMap{}, &rbacv1.Role{}, &rbacv1.RoleBinding{}, &networkingv1.Ingress{},
	} {
		b.Watches(kind, owners, builder.WithPredicates(changedForOwners()))
	}
	for _, kind := range childKinds() {
		b.Watches(kind, handler.EnqueueRequestsFromMapFunc(r.deploymentsOfOrphan))
	}
	failed := handler.EnqueueRequestsFromMapFunc(r.failedIn)
	b.Watches(&corev1.ResourceQuota{}, failed, builder.WithPredicates(blocked.QuotaEased()))
	b.Watches(&corev1.Service{}, failed, builder.WithPredicates(blocked.NotOurs(func(o client.Object) bool {
		return metav1.GetControllerOf(o) != nil
	})))
	b.Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(r.graphOfPod), builder.WithPredicates(movedElsewhere()))
	b.Watches(&corev1.Node{}, handler.Funcs{UpdateFunc: r.nodeRelabelled})
	b.WatchesMetadata(claimMetadata(), handler.EnqueueRequestsFromMapFunc(r.usersOfClaim))
	b.WatchesMetadata(DefinitionMetadata(), handler.EnqueueRequestsFromMapFunc(r.usersOfPools))
}

// changedForOwners drops updates of shared objects that only add owners. Each new deployment of a namespace causes such an update, which
// would requeue all other deployments.
func changedForOwners() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		if metav1.GetControllerOf(e.ObjectNew) != nil {
			return true
		}
		for _, owner := range e.ObjectOld.GetOwnerReferences() {
			if !slices.ContainsFunc(e.ObjectNew.GetOwnerReferences(), func(o metav1.OwnerReference) bool { return o.UID == owner.UID }) {
				return true
			}
		}
		before, now := e.ObjectOld.DeepCopyObject().(client.Object), e.ObjectNew.DeepCopyObject().(client.Object)
		for _, object := range []client.Object{before, now} {
			object.SetOwnerReferences(nil)
			object.SetResourceVersion("")
			object.SetManagedFields(nil)
		}
		return !equality.Semantic.DeepEqual(before, now)
	}}
}

// topologyChanged drops updates of a ClusterTopology's status. The status counts the deployments that use the topology, so each new
// deployment would requeue all other deployments.
func topologyChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration() ||
			!e.ObjectOld.GetDeletionTimestamp().Equal(e.ObjectNew.GetDeletionTimestamp()) ||
			!maps.Equal(e.ObjectOld.GetAnnotations(), e.ObjectNew.GetAnnotations())
	}}
}

// failedIn returns the failed deployments of an object's namespace, because their children may not be applied yet.
func (r *Reconciler) failedIn(ctx context.Context, object client.Object) []reconcile.Request {
	dgds := &nvidiav1beta1.DynamoGraphDeploymentList{}
	if err := r.Client.List(ctx, dgds, client.InNamespace(object.GetNamespace())); err != nil {
		log.FromContext(ctx).Error(err, "listing the deployments of a namespace", "namespace", object.GetNamespace())
		return nil
	}
	var out []reconcile.Request
	for i := range dgds.Items {
		if dgds.Items[i].Status.State == nvidiav1beta1.StateFailed {
			out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&dgds.Items[i])})
		}
	}
	return out
}

// movedElsewhere selects events of pods that a provider makes itself: a pod is bound or deleted, or its scheduler reports another reason
// why it is not bound. The condition Placed contains the nodes and reasons of these pods. The scalinggroup controller watches the pods that
// Trellis makes.
func movedElsewhere() predicate.Funcs {
	node := func(o client.Object) string { return o.(*corev1.Pod).Spec.NodeName }
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return theirs(e.Object) && node(e.Object) != "" },
		UpdateFunc: func(e event.UpdateEvent) bool {
			return theirs(e.ObjectNew) && (node(e.ObjectOld) != node(e.ObjectNew) || whyUnbound(e.ObjectOld) != whyUnbound(e.ObjectNew) ||
				(e.ObjectOld.GetDeletionTimestamp() == nil) != (e.ObjectNew.GetDeletionTimestamp() == nil))
		},
		DeleteFunc:  func(e event.DeleteEvent) bool { return theirs(e.Object) && node(e.Object) != "" },
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}

// theirs reports whether a pod of a deployment was made by a provider.
func theirs(pod client.Object) bool {
	owner := metav1.GetControllerOf(pod)
	return pod.GetLabels()[render.LabelScalingGroup] != "" && pod.GetLabels()[render.LabelGraph] != "" && (owner == nil ||
		owner.Kind != "ScalingGroup")
}

// nodeRelabelled queues the deployments that have provider-made pods on a node whose labels now show another domain. For other pods, the
// scheduler reports the domains.
func (r *Reconciler) nodeRelabelled(
	ctx context.Context, e event.UpdateEvent, queue workqueue.TypedRateLimitingInterface[reconcile.Request],
) {
	before, now := e.ObjectOld.GetLabels(), e.ObjectNew.GetLabels()
	if maps.Equal(before, now) {
		return
	}
	pods := &corev1.PodList{}
	if err := r.Client.List(ctx, pods, client.MatchingFields{scheduler.IndexPodsByNode: e.ObjectNew.GetName()}); err != nil {
		log.FromContext(ctx).Error(err, "listing the pods of a node", "node", e.ObjectNew.GetName())
		return
	}
	for i := range pods.Items {
		pod, sg := &pods.Items[i], &trellisv1alpha1.ScalingGroup{}
		key := client.ObjectKey{Namespace: pod.Namespace, Name: pod.Labels[render.LabelScalingGroup]}
		if theirs(pod) && r.Client.Get(ctx, key, sg) == nil && gang.MovesPods(sg, before, now) {
			queue.Add(reconcile.Request{NamespacedName: client.ObjectKey{Namespace: pod.Namespace, Name: sg.Spec.Graph}})
		}
	}
}

// whyUnbound returns why a scheduler cannot bind a pod; "" if it reports nothing.
func whyUnbound(o client.Object) string {
	for _, c := range o.(*corev1.Pod).Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return c.Reason + c.Message
		}
	}
	return ""
}

// graphOfPod returns the deployment of a pod. It finds the deployment through the scaling groups with the pod's graph label, because the
// label may hold a shortened name.
func (r *Reconciler) graphOfPod(ctx context.Context, pod client.Object) []reconcile.Request {
	groups := &trellisv1alpha1.ScalingGroupList{}
	if err := r.Client.List(ctx, groups, client.InNamespace(pod.GetNamespace()),
		client.MatchingFields{indexByLabel: pod.GetLabels()[render.LabelGraph]}); err != nil {
		log.FromContext(ctx).Error(err, "listing the scaling groups of a pod's graph", "pod", pod.GetName())
		return nil
	}
	var out []reconcile.Request
	for i := range groups.Items {
		request := reconcile.Request{NamespacedName: client.ObjectKey{Namespace: pod.GetNamespace(), Name: groups.Items[i].Spec.Graph}}
		if !slices.Contains(out, request) {
			out = append(out, request)
		}
	}
	return out
}

// DefinitionMetadata returns an empty object with which CustomResourceDefinitions are read and cached as metadata only.
func DefinitionMetadata() *metav1.PartialObjectMetadata {
	out := &metav1.PartialObjectMetadata{}
	out.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
	return out
}

func (r *Reconciler) indexPrerequisites(ctx context.Context, mgr ctrl.Manager) error {
	for field, values := range map[string]func(*nvidiav1beta1.DynamoGraphDeployment) []string{IndexByClaim: claimNames,
		IndexByPicker: hasPicker} {
		err := mgr.GetFieldIndexer().IndexField(ctx, &nvidiav1beta1.DynamoGraphDeployment{}, field, func(o client.Object) []string {
			return values(o.(*nvidiav1beta1.DynamoGraphDeployment))
		})
		if err != nil {
			return fmt.Errorf("indexing deployments by %s: %w", field, err)
		}
	}
	return nil
}
