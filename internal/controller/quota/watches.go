// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/provider"
	"github.com/trellis-k8s/trellis/internal/quota"
	"github.com/trellis-k8s/trellis/internal/render"
)

// deploymentOf returns the deployment of a pod. It records the deployment in strays if the pod's scaling group has no queue.
func (r *Reconciler) deploymentOf(ctx context.Context, o client.Object) []reconcile.Request {
	name, _, ok := render.GroupOf(o.(*corev1.Pod))
	sg := &trellisv1alpha1.ScalingGroup{}
	if !ok || r.Client.Get(ctx, types.NamespacedName{Namespace: o.GetNamespace(), Name: name}, sg) != nil {
		return nil
	}
	graph := types.NamespacedName{Namespace: o.GetNamespace(), Name: sg.Spec.Graph}
	if quota.QueueOf(sg) == "" {
		r.strays.Store(graph, true)
	}
	return []reconcile.Request{{NamespacedName: graph}}
}

// concernedBy returns the deployments to reconcile after a change of a provider: the deployment that the change names, or else all
// deployments that are, were, or may be in a queue.
func (r *Reconciler) concernedBy(ctx context.Context, change client.Object) []reconcile.Request {
	if name, one := provider.GraphOf(change); one {
		return []reconcile.Request{{NamespacedName: name}}
	}
	var out []reconcile.Request
	for _, dgd := range r.concerned(ctx) {
		out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(dgd)})
	}
	for _, names := range []*sync.Map{&r.strays, &r.unseen.byDeployment} {
		names.Range(func(name, _ any) bool {
			out = append(out, reconcile.Request{NamespacedName: name.(types.NamespacedName)})
			return true
		})
	}
	return out
}

// concerned returns all deployments that are, or were, in a queue.
func (r *Reconciler) concerned(ctx context.Context) []*nvidiav1beta1.DynamoGraphDeployment {
	all := &nvidiav1beta1.DynamoGraphDeploymentList{}
	if err := r.Client.List(ctx, all, client.UnsafeDisableDeepCopy); err != nil {
		log.FromContext(ctx).Error(err, "listing the deployments that a change of Kueue concerns")
		return nil
	}
	var out []*nvidiav1beta1.DynamoGraphDeployment
	for i := range all.Items {
		if Concerns(&all.Items[i]) {
			out = append(out, &all.Items[i])
		}
	}
	return out
}

// tellGraphs requeues all deployments that are, or were, in a queue, to write their conditions again.
func (r *Reconciler) tellGraphs(ctx context.Context) {
	for _, dgd := range r.concerned(ctx) {
		about := &nvidiav1beta1.DynamoGraphDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: dgd.Namespace, Name: dgd.Name}}
		select {
		case r.Checks.Graphs <- event.GenericEvent{Object: about}:
		case <-ctx.Done():
			return
		}
	}
}
