// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/provider"
	"github.com/trellis-k8s/trellis/internal/provider/external"
	"github.com/trellis-k8s/trellis/internal/quota"
)

// Name of Kueue among the providers. No deployment names it as its provider: it gives quota, whatever places the pods.
const Name = "Kueue"

// Kueue reports whether the cluster has Kueue, and watches the Workloads of deployments.
type Kueue struct {
	// Served is asked for the kinds that the API server serves, which takes no rights.
	Served discovery.ServerResourcesInterface
	// Live reads past the cache.
	Live client.Reader
	// Namespaces whose deployments are managed; empty: all.
	Namespaces []string
}

var _ provider.Provider = Kueue{}

// Name implements provider.Provider.
func (Kueue) Name() string { return Name }

// Probe implements provider.Provider.
func (k Kueue) Probe(ctx context.Context) (provider.State, error) {
	version := quota.WorkloadKind.GroupVersion().String()
	list, err := k.Served.ServerResourcesForGroupVersion(version)
	if err != nil && !apierrors.IsNotFound(err) {
		return provider.State{}, fmt.Errorf("asking for the resources of %s: %w", version, err)
	}
	if list == nil || !slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == "workloads" }) {
		return provider.State{Reason: nvidiav1beta1.ReasonKueueNotInstalled, Message: fmt.Sprintf("workloads of %s are not served; install a Kueue that serves them", version)}, nil
	}
	return k.readable(ctx)
}

// readable asks for one Workload: without the rights an informer would wait for its first list, and all other providers with it.
func (k Kueue) readable(ctx context.Context) (provider.State, error) {
	list, options := listOfWorkloads(), []client.ListOption{client.Limit(1)}
	if len(k.Namespaces) > 0 {
		options = append(options, client.InNamespace(k.Namespaces[0]))
	}
	err := k.Live.List(ctx, list, options...)
	if apierrors.IsForbidden(err) {
		return provider.State{Reason: nvidiav1beta1.ReasonKueueNotReadable, Message: "the operator has no rights on Workloads of Kueue: " +
			"install the component config/kueue, or set the chart's value kueue.enabled"}, nil
	}
	if err != nil {
		return provider.State{}, fmt.Errorf("asking for a Workload: %w", err)
	}
	return provider.Ready(), nil
}

func listOfWorkloads() *unstructured.UnstructuredList {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(quota.WorkloadKind.GroupVersion().WithKind(quota.WorkloadKind.Kind + "List"))
	return list
}

// Unsuited implements provider.Provider: it is no provider of any graph.
func (Kueue) Unsuited([]*trellisv1alpha1.ScalingGroup) string {
	return "Kueue gives quota and places no pods"
}

// Watches implements provider.Provider: the Workloads of deployments, not those of other people's jobs.
func (Kueue) Watches() []provider.Watch {
	workload := &unstructured.Unstructured{}
	workload.SetGroupVersionKind(quota.WorkloadKind)
	ours, err := labels.NewRequirement(quota.LabelGraphUID, selection.Exists, nil)
	if err != nil {
		panic(err) // a constant that is no label's key: a fault of the program
	}
	return []provider.Watch{{Object: workload, Label: labels.NewSelector().Add(*ours), Graph: graphOf}}
}

// graphOf is the deployment of a Workload.
func graphOf(o client.Object) (types.NamespacedName, bool) {
	for _, owner := range o.GetOwnerReferences() {
		if owner.Kind == "DynamoGraphDeployment" && o.GetLabels()[quota.LabelGraphUID] == string(owner.UID) {
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

// Reader reads the Workloads of deployments from the cache; nil, with the reason, while that is not possible.
func Reader(ctx context.Context, registry Registry) (client.Reader, quota.Report) {
	if state := registry.State(ctx, Name); !state.Ready {
		return nil, quota.Report{Reason: state.Reason, Message: state.Message}
	}
	if own := registry.Own(Name); own != nil {
		return own, quota.Report{}
	}
	return nil, quota.Report{Reason: nvidiav1beta1.ReasonKueueNotReadable, Message: "Workloads of Kueue are not read yet, which takes a moment after the start"}
}

// Workloads lists those of a deployment.
func Workloads(ctx context.Context, from client.Reader, dgd types.NamespacedName, uid types.UID) ([]*quota.Workload, error) {
	list := listOfWorkloads()
	if err := from.List(ctx, list, client.InNamespace(dgd.Namespace), client.MatchingLabels{quota.LabelGraphUID: string(uid)}); err != nil {
		return nil, fmt.Errorf("listing the Workloads of deployment %s: %w", dgd.Name, err)
	}
	workloads := make([]*quota.Workload, 0, len(list.Items))
	for i := range list.Items {
		w := &quota.Workload{}
		if err := external.Read(&list.Items[i], w); err != nil {
			return nil, err
		}
		workloads = append(workloads, w)
	}
	return workloads, nil
}
