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
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/trellis-k8s/trellis/internal/capacity"
	"github.com/trellis-k8s/trellis/internal/provider"
	"github.com/trellis-k8s/trellis/internal/provider/addon"
	"github.com/trellis-k8s/trellis/internal/provider/external"
)

// Name is the name under which Cluster Autoscaler's API is registered as a provider. Deployments do not select it.
const Name = "ProvisioningRequest"

// Reasons why ProvisioningRequests cannot be used.
const (
	reasonNotServed   = "ProvisioningRequestNotServed"
	reasonNotReadable = "ProvisioningRequestNotReadable"
)

// requests is the kind ProvisioningRequest. A label of each object contains the UID of its deployment.
var requests = addon.Kind{GroupVersionKind: capacity.RequestKind, Resource: "provisioningrequests", UIDLabel: capacity.LabelGraphUID}

// Autoscaler returns the provider that reports whether the cluster serves ProvisioningRequests, and that watches the ProvisioningRequests
// of deployments.
func Autoscaler(cluster addon.Cluster) provider.Provider {
	return addon.Addon{
		Cluster: cluster, Kind: requests, Called: Name, Places: "a ProvisioningRequest adds nodes and places no pods",
		NotServed: provider.State{
			Reason:  reasonNotServed,
			Message: fmt.Sprintf("provisioningrequests of %s are not served; install their definition", capacity.RequestKind.GroupVersion()),
		},
		NotReadable: provider.State{
			Reason: reasonNotReadable,
			Message: "the operator has no rights on ProvisioningRequests: " +
				"install the component config/capacity, or set the chart's value capacity.requests",
		},
	}
}

// observeRequests reads the existing ProvisioningRequests. If ProvisioningRequests cannot be read, it writes the reason into the field Bars
// of each gang that uses them. While their cache is not ready after an operator start, it omits these gangs.
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
	list := requests.List()
	if err := own.List(ctx, list, client.HasLabels{capacity.LabelAsk}); err != nil {
		return fmt.Errorf("listing ProvisioningRequests: %w", err)
	}
	for i := range list.Items {
		one := &capacity.ProvisioningRequest{}
		if _, ours := requests.GraphOf(&list.Items[i]); !ours {
			continue
		}
		if err := external.Read(&list.Items[i], one); err != nil {
			return err
		}
		o.Requests = append(o.Requests, one.Observed())
	}
	return nil
}

// deleteRequest deletes a ProvisioningRequest and its PodTemplates. It deletes the PodTemplates first, because a later reconcile finds them
// only while the ProvisioningRequest exists.
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
