// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package dynamographdeployment

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/render"
)

// This file applies the objects of a graph other than its groups, pods and Services. The operator holds every right that it grants to pods,
// because the API server lets no client grant a right that the client lacks.
//
// +kubebuilder:rbac:groups="",resources=serviceaccounts;configmaps,verbs=create;delete;get;list;patch;watch
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=roles;rolebindings,verbs=create;delete;get;list;patch;watch
// +kubebuilder:rbac:groups=networking.k8s.io,resources=ingresses,verbs=create;delete;get;list;patch;watch
// +kubebuilder:rbac:groups="",resources=endpoints,verbs=get;list;watch
// +kubebuilder:rbac:groups=discovery.k8s.io,resources=endpointslices,verbs=get;list;watch
// +kubebuilder:rbac:groups=nvidia.com,resources=dynamoworkermetadatas,verbs=create;delete;get;list;patch;update;watch
// +kubebuilder:rbac:groups=nvidia.com,resources=dynamographdeployments,verbs=get;list;patch;watch
// +kubebuilder:rbac:groups=nvidia.com,resources=dynamographdeploymentscalingadapters,verbs=get;list;watch
// +kubebuilder:rbac:groups=nvidia.com,resources=dynamographdeploymentscalingadapters/scale,verbs=get;patch;update
// +kubebuilder:rbac:groups=inference.networking.k8s.io,resources=inferencepools,verbs=create;delete;get;list;patch;watch
// +kubebuilder:rbac:groups=resource.nvidia.com,resources=computedomains,verbs=create;get;patch
// +kubebuilder:rbac:groups=inference.networking.x-k8s.io,resources=inferencemodelrewrites;inferenceobjectives;inferencepools,verbs=get;list;watch

// ownedKinds returns the kinds whose objects are created and deleted when the spec changes.
func ownedKinds() []client.ObjectList {
	return []client.ObjectList{
		&corev1.ServiceAccountList{}, &corev1.ConfigMapList{}, &rbacv1.RoleList{}, &rbacv1.RoleBindingList{}, &networkingv1.IngressList{},
	}
}

// applyExtras applies the graph's objects other than groups and Services, and deletes objects that are no longer wanted.
func (r *Reconciler) applyExtras(ctx context.Context, o observed, wanted *render.Graph) error {
	var failures []error
	for _, object := range wanted.Shared() { // first: bindings of the deployment's own refer to shared accounts
		if binding, ok := object.(*rbacv1.RoleBinding); ok && o.prerequisites.access.bindable(binding) == nil {
			failures = append(failures, r.unshare(ctx, binding))
			continue
		}
		if o.prerequisites.access.isUncertain(object) {
			continue
		}
		err := r.applyShared(ctx, o.dgd, object)
		o.prerequisites.access.note(object, err)
		if !errors.As(err, new(*notOurs)) { // an object of another owner is used as it is
			failures = append(failures, err)
		}
	}
	waits := false // objects depend on earlier ones, as a binding on its role, so a leftover blocks those after it
	keep := map[reflect.Type]map[string]bool{}
	for _, object := range wanted.Owned() {
		if binding, ok := object.(*rbacv1.RoleBinding); ok {
			if binding = o.prerequisites.access.bindable(binding); binding == nil {
				continue // prune deletes an existing one
			}
			object = binding
		}
		kind := reflect.TypeOf(object).Elem()
		if keep[kind] == nil {
			keep[kind] = map[string]bool{}
		}
		keep[kind][object.GetName()] = true
		if o.lacks(object) || waits || o.prerequisites.access.isUncertain(object) {
			continue
		}
		existing := blank(object)
		err := r.applyChild(ctx, o.dgd, object, existing, func() bool { return sameContent(object, existing) })
		o.prerequisites.access.note(object, err)
		waits = errors.As(err, new(*leftover))
		failures = append(failures, err)
	}
	failures = append(failures, r.createClaims(ctx, o.dgd, wanted.Claims().Created)...)
	if wanted.NeedsSSHKeys() {
		failures = append(failures, r.createSSHKeys(ctx, o.dgd))
	}
	for _, kind := range ownedKinds() {
		failures = append(failures, r.prune(ctx, o.dgd, kind, keep))
	}
	return errors.Join(failures...)
}

// blank returns an empty object of the same kind.
func blank(object client.Object) client.Object {
	if u, ok := object.(*unstructured.Unstructured); ok {
		out := &unstructured.Unstructured{}
		out.SetGroupVersionKind(u.GroupVersionKind())
		return out
	}
	return reflect.New(reflect.TypeOf(object).Elem()).Interface().(client.Object)
}

// sameContent reports whether an object equals the wanted object except for its metadata.
func sameContent(wanted, existing client.Object) bool {
	switch wanted := wanted.(type) {
	case *corev1.ServiceAccount:
		return true
	case *corev1.Service:
		return equality.Semantic.DeepDerivative(wanted.Spec, existing.(*corev1.Service).Spec)
	case *corev1.ConfigMap:
		return equality.Semantic.DeepEqual(wanted.Data, existing.(*corev1.ConfigMap).Data)
	case *rbacv1.Role:
		return equality.Semantic.DeepEqual(wanted.Rules, existing.(*rbacv1.Role).Rules)
	case *rbacv1.RoleBinding:
		return equality.Semantic.DeepEqual(wanted.Subjects, existing.(*rbacv1.RoleBinding).Subjects)
	case *networkingv1.Ingress:
		have := existing.(*networkingv1.Ingress).Spec
		if wanted.Spec.IngressClassName == nil {
			have.IngressClassName = nil // the cluster's default class
		}
		return equality.Semantic.DeepEqual(wanted.Spec, have)
	case *unstructured.Unstructured:
		return within(wanted.Object["spec"], existing.(*unstructured.Unstructured).Object["spec"])
	}
	return false
}

// within reports whether whole contains everything in part; whole may contain more, such as defaults.
func within(part, whole any) bool {
	switch part := part.(type) {
	case map[string]any:
		other, _ := whole.(map[string]any)
		for key, value := range part {
			if !within(value, other[key]) {
				return false
			}
		}
		return true
	case []any:
		other, _ := whole.([]any)
		if len(part) != len(other) {
			return false
		}
		for i := range part {
			if !within(part[i], other[i]) {
				return false
			}
		}
		return true
	}
	return equality.Semantic.DeepEqual(part, whole)
}

// prune deletes the deployment's own objects of a kind that are no longer wanted.
func (r *Reconciler) prune(ctx context.Context, dgd *nvidiav1beta1.DynamoGraphDeployment, list client.ObjectList,
	keep map[reflect.Type]map[string]bool) error {
	items, err := r.labelled(ctx, dgd, list)
	if err != nil {
		return err
	}
	for _, item := range items {
		object := item.(client.Object)
		if object.GetLabels()[render.LabelManagedBy] != render.ManagedBy || !metav1.IsControlledBy(object, dgd) ||
			object.GetDeletionTimestamp() != nil || keep[reflect.TypeOf(object).Elem()][object.GetName()] {
			continue
		}
		uid, version := object.GetUID(), object.GetResourceVersion() // another controller may own it by now
		err := r.Client.Delete(ctx, object, client.Preconditions{UID: &uid, ResourceVersion: &version})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return fmt.Errorf("deleting %T %s: %w", object, object.GetName(), err)
		}
	}
	return nil
}
