// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package addon registers an optional API as a provider. Such an API places no pods, but grants quota or requests nodes. The registry
// checks whether the cluster serves the API, watches the API's objects, and reads them from a separate cache. If the API is missing, or if
// Trellis has no rights to it, no other provider is delayed.
package addon

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/provider"
)

// Cluster gives access to the cluster that may serve the API.
type Cluster struct {
	// Served lists the kinds that the API server serves. This request needs no rights.
	Served discovery.ServerResourcesInterface
	// Live reads from the API server.
	Live client.Reader
	// Namespaces whose deployments are managed; empty for all.
	Namespaces []string
}

// Kind is a kind of the API. Deployments own the objects of this kind.
type Kind struct {
	schema.GroupVersionKind
	// Resource is the plural name in paths.
	Resource string
	// UIDLabel is the key of the label that holds the UID of the deployment that owns the object.
	UIDLabel string
}

// List returns an empty list of the kind.
func (k Kind) List() *unstructured.UnstructuredList {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(k.GroupVersion().WithKind(k.Kind + "List"))
	return list
}

// GraphOf returns the deployment that owns an object; false if no deployment owns it.
func (k Kind) GraphOf(o client.Object) (types.NamespacedName, bool) {
	for _, owner := range o.GetOwnerReferences() {
		if owner.Kind == "DynamoGraphDeployment" && o.GetLabels()[k.UIDLabel] == string(owner.UID) {
			return types.NamespacedName{Namespace: o.GetNamespace(), Name: owner.Name}, true
		}
	}
	return types.NamespacedName{}, false
}

// Addon is a [provider.Provider] that deployments use in addition to the provider that places their pods.
type Addon struct {
	Cluster
	Kind Kind
	// Called is the addon's provider name. Places is the message for a deployment that names the addon as its provider. The message
	// explains what the addon does instead of placing pods.
	Called, Places string
	// NotServed is the state if the API is not served, and NotReadable the state if Trellis has no rights to it.
	NotServed, NotReadable provider.State
}

var _ provider.Provider = Addon{}

// Name implements provider.Provider.
func (a Addon) Name() string { return a.Called }

// Probe implements provider.Provider.
func (a Addon) Probe(ctx context.Context) (provider.State, error) {
	version := a.Kind.GroupVersion().String()
	list, err := a.Served.ServerResourcesForGroupVersion(version)
	if err != nil && !apierrors.IsNotFound(err) {
		return provider.State{}, fmt.Errorf("asking for the resources of %s: %w", version, err)
	}
	if list == nil || !slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == a.Kind.Resource }) {
		return a.NotServed, nil
	}
	return a.readable(ctx)
}

// readable checks the rights by listing one object. Without the rights, an informer would block on its first list and delay all other
// providers.
func (a Addon) readable(ctx context.Context) (provider.State, error) {
	options := []client.ListOption{client.Limit(1)}
	if len(a.Namespaces) > 0 {
		options = append(options, client.InNamespace(a.Namespaces[0]))
	}
	err := a.Live.List(ctx, a.Kind.List(), options...)
	if apierrors.IsForbidden(err) {
		return a.NotReadable, nil
	}
	if err != nil {
		return provider.State{}, fmt.Errorf("asking for a %s: %w", a.Kind.Kind, err)
	}
	return provider.Ready(), nil
}

// Unsuited implements provider.Provider: no deployment can use an addon as its provider.
func (a Addon) Unsuited([]*trellisv1alpha1.ScalingGroup) string { return a.Places }

// Watches implements provider.Provider: it watches the objects that deployments own.
func (a Addon) Watches() []provider.Watch {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(a.Kind.GroupVersionKind)
	ours, err := labels.NewRequirement(a.Kind.UIDLabel, selection.Exists, nil)
	if err != nil {
		panic(err) // the constant is not a valid label key: a bug
	}
	return []provider.Watch{{Object: object, Label: labels.NewSelector().Add(*ours), Graph: a.Kind.GraphOf}}
}

// Registry is the subset of the provider registry that addons use.
type Registry interface {
	State(ctx context.Context, name string) provider.State
	Own(name string) client.Reader
}
