// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package capacity

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/capacity"
	"github.com/trellis-k8s/trellis/internal/provider"
	"github.com/trellis-k8s/trellis/internal/provider/external"
)

// Name of Cluster Autoscaler's API among the providers. No deployment names it as its provider.
const Name = "ProvisioningRequest"

// Reasons why ProvisioningRequests cannot be made.
const (
	reasonNotServed   = "ProvisioningRequestNotServed"
	reasonNotReadable = "ProvisioningRequestNotReadable"
)

// Autoscaler reports whether the cluster serves ProvisioningRequests, and watches those of deployments.
type Autoscaler struct {
	// Served is asked for the kinds that the API server serves, which takes no rights.
	Served discovery.ServerResourcesInterface
	// Live reads past the cache.
	Live client.Reader
	// Namespaces whose deployments are managed; empty: all.
	Namespaces []string
}

var _ provider.Provider = Autoscaler{}

// Name implements provider.Provider.
func (Autoscaler) Name() string { return Name }

// Probe implements provider.Provider.
func (a Autoscaler) Probe(ctx context.Context) (provider.State, error) {
	version := capacity.RequestKind.GroupVersion().String()
	list, err := a.Served.ServerResourcesForGroupVersion(version)
	if err != nil && !apierrors.IsNotFound(err) {
		return provider.State{}, fmt.Errorf("asking for the resources of %s: %w", version, err)
	}
	if list == nil || !slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == "provisioningrequests" }) {
		return provider.State{Reason: reasonNotServed, Message: fmt.Sprintf("provisioningrequests of %s are not served; install their definition", version)}, nil
	}
	options := []client.ListOption{client.Limit(1)}
	if len(a.Namespaces) > 0 {
		options = append(options, client.InNamespace(a.Namespaces[0]))
	}
	err = a.Live.List(ctx, listOfRequests(), options...)
	if apierrors.IsForbidden(err) {
		return provider.State{Reason: reasonNotReadable, Message: "the operator has no rights on ProvisioningRequests: " +
			"install the component config/capacity, or set the chart's value capacity.requests"}, nil
	}
	if err != nil {
		return provider.State{}, fmt.Errorf("asking for a ProvisioningRequest: %w", err)
	}
	return provider.Ready(), nil
}

func listOfRequests() *unstructured.UnstructuredList {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(capacity.RequestKind.GroupVersion().WithKind(capacity.RequestKind.Kind + "List"))
	return list
}

// Unsuited implements provider.Provider: it is no provider of any graph.
func (Autoscaler) Unsuited([]*trellisv1alpha1.ScalingGroup) string {
	return "a ProvisioningRequest adds nodes and places no pods"
}

// Watches implements provider.Provider: the requests of deployments, not those of others.
func (Autoscaler) Watches() []provider.Watch {
	request := &unstructured.Unstructured{}
	request.SetGroupVersionKind(capacity.RequestKind)
	ours, err := labels.NewRequirement(capacity.LabelAsk, selection.Exists, nil)
	if err != nil {
		panic(err) // a constant that is no label's key: a fault of the program
	}
	return []provider.Watch{{Object: request, Label: labels.NewSelector().Add(*ours), Graph: graphOf}}
}

// graphOf is the deployment of a request.
func graphOf(o client.Object) (types.NamespacedName, bool) {
	for _, owner := range o.GetOwnerReferences() {
		if owner.Kind == "DynamoGraphDeployment" && o.GetLabels()[capacity.LabelGraphUID] == string(owner.UID) {
			return types.NamespacedName{Namespace: o.GetNamespace(), Name: owner.Name}, true
		}
	}
	return types.NamespacedName{}, false
}

// Registry is what is asked of the registry of providers.
type Registry interface {
	State(ctx context.Context, name string) provider.State
	Own(name string) client.Reader
}

// observeRequests reads those that exist. While that is not possible the gangs that are asked for by them are barred, with the reason; for the moment after
// the start they are left out.
func (r *Reconciler) observeRequests(ctx context.Context, o *capacity.Observation) error {
	if !slices.Contains(r.Options.Kinds, capacity.KindProvisioningRequest) {
		return nil
	}
	if why := r.Providers.State(ctx, Name).Message; why != "" {
		for i := range o.Gangs {
			if g := &o.Gangs[i]; g.Kind == capacity.KindProvisioningRequest && g.Bars == "" {
				g.Bars = why
			}
		}
		return nil
	}
	own := r.Providers.Own(Name)
	if own == nil {
		o.Gangs = slices.DeleteFunc(o.Gangs, func(g capacity.Gang) bool { return g.Kind == capacity.KindProvisioningRequest })
		return nil
	}
	list := listOfRequests()
	if err := own.List(ctx, list, client.HasLabels{capacity.LabelAsk}); err != nil {
		return fmt.Errorf("listing ProvisioningRequests: %w", err)
	}
	for i := range list.Items {
		one := &capacity.ProvisioningRequest{}
		if _, ours := graphOf(&list.Items[i]); !ours {
			continue
		}
		if err := external.Read(&list.Items[i], one); err != nil {
			return err
		}
		o.Requests = append(o.Requests, one.Observed())
	}
	return nil
}

// deleteRequest deletes the PodTemplates first: while the request is there, the next look finds what is left of it.
func (r *Reconciler) deleteRequest(ctx context.Context, one capacity.Request) error {
	for _, name := range one.Templates {
		template := &corev1.PodTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: one.Namespace, Name: name}}
		if err := client.IgnoreNotFound(r.Client.Delete(ctx, template)); err != nil {
			return fmt.Errorf("deleting PodTemplate %s: %w", name, err)
		}
	}
	log.FromContext(ctx).Info("capacity is not asked for any more", "request", one.Name, "namespace", one.Namespace)
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(capacity.RequestKind)
	object.SetNamespace(one.Namespace)
	object.SetName(one.Name)
	err := r.Client.Delete(ctx, object, client.Preconditions{UID: &one.UID})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("deleting ProvisioningRequest %s: %w", one.Name, err)
	}
	return nil
}
