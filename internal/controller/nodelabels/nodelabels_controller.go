// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package nodelabels copies node labels to the bound pods that request them by annotation. These pods are the workers of graphs with a
// transfer policy for KV caches, under any provider. Each copied label becomes a file in the pod, and the worker waits for the file when it
// starts.
//
//	pod annotation nvidia.com/topology-label-key: example.com/rack     label example.com/rack of its node
//	pod annotation nvidia.com/topology-cluster-topology-name: gb200    a label nvidia.com/dynamo-topology.LEVEL for each level
//
// Existing labels of the pod stay, because they come from the pod's pins. Labels that the node does not have are not copied.
package nodelabels

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/controller/blocked"
	"github.com/trellis-k8s/trellis/internal/render"
)

// workers is how many pods are labelled in parallel.
const workers = 4

// Reconciler labels pods.
type Reconciler struct{ Client client.Client }

// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;patch;watch
// +kubebuilder:rbac:groups="",resources=nodes,verbs=get;list;watch
// +kubebuilder:rbac:groups=grove.io,resources=clustertopologies,verbs=get;list;watch

// SetupWithManager registers the controller.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).Named("nodelabels").
		For(&corev1.Pod{}, builder.WithPredicates(predicate.NewPredicateFuncs(asks))).
		WithOptions(blocked.Options(workers, blocked.Retries{})).
		Complete(r)
}

// asks reports whether an object is a bound pod that requests labels of its node.
func asks(o client.Object) bool {
	pod, ok := o.(*corev1.Pod)
	return ok && pod.Spec.NodeName != "" && pod.DeletionTimestamp == nil &&
		pod.Annotations[render.AnnotationTopologyLabelKey]+pod.Annotations[render.AnnotationTopologyName] != ""
}

// Reconcile copies the requested labels that a pod does not have yet.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	pod := &corev1.Pod{}
	if err := r.Client.Get(ctx, req.NamespacedName, pod); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !asks(pod) {
		return ctrl.Result{}, nil
	}
	node := &corev1.Node{}
	if err := r.Client.Get(ctx, types.NamespacedName{Name: pod.Spec.NodeName}, node); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	topology, err := r.topology(ctx, pod.Annotations[render.AnnotationTopologyName])
	if err != nil {
		return ctrl.Result{}, err
	}
	labels := render.NodeLabels(pod, node, topology)
	if len(labels) == 0 {
		return ctrl.Result{}, nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": pod.UID, "labels": labels}})
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("writing the labels of pod %s: %w", pod.Name, err)
	}
	err = r.Client.Patch(ctx, pod, client.RawPatch(types.MergePatchType, patch))
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) { // another pod with this name, which has its own event
		return ctrl.Result{}, nil
	}
	return ctrl.Result{}, err
}

// topology reads a ClusterTopology; nil if the name is empty or the ClusterTopology does not exist.
func (r *Reconciler) topology(ctx context.Context, name string) (*grovev1alpha1.ClusterTopology, error) {
	if name == "" {
		return nil, nil
	}
	topology := &grovev1alpha1.ClusterTopology{}
	if err := r.Client.Get(ctx, types.NamespacedName{Name: name}, topology); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	return topology, nil
}
