// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/provider"
	"github.com/trellis-k8s/trellis/internal/provider/addon"
	"github.com/trellis-k8s/trellis/internal/provider/external"
	"github.com/trellis-k8s/trellis/internal/quota"
)

// Name is the name of Kueue among the providers. Deployments do not select Kueue as their provider, because Kueue grants quota and places
// no pods.
const Name = "Kueue"

// workloads is the kind Workload of Kueue.
var workloads = addon.Kind{GroupVersionKind: quota.WorkloadKind, Resource: "workloads", UIDLabel: quota.LabelGraphUID}

// Kueue returns the provider that reports whether the cluster has Kueue, and that watches the Workloads.
func Kueue(cluster addon.Cluster) provider.Provider {
	return addon.Addon{
		Cluster: cluster, Kind: workloads, Called: Name, Places: "Kueue gives quota and places no pods",
		NotServed: provider.State{
			Reason:  nvidiav1beta1.ReasonKueueNotInstalled,
			Message: fmt.Sprintf("workloads of %s are not served; install a Kueue that serves them", quota.WorkloadKind.GroupVersion()),
		},
		NotReadable: provider.State{
			Reason:  nvidiav1beta1.ReasonKueueNotReadable,
			Message: "the operator has no rights on Workloads of Kueue: install the component config/kueue, or set the chart's value kueue.enabled",
		},
	}
}

// Reader returns a reader of the cached Workloads of deployments. While Workloads cannot be read, it returns nil and a report with the
// reason.
func Reader(ctx context.Context, registry addon.Registry) (client.Reader, quota.Report) {
	if state := registry.State(ctx, Name); !state.Ready {
		return nil, quota.Report{Reason: state.Reason, Message: state.Message}
	}
	if own := registry.Own(Name); own != nil {
		return own, quota.Report{}
	}
	return nil, quota.Report{Reason: nvidiav1beta1.ReasonKueueNotReadable,
		Message: "Workloads of Kueue are not read yet, which takes a moment after the start"}
}

// Workloads lists the Workloads of a deployment. Callers must not change the Workloads.
func Workloads(ctx context.Context, from client.Reader, dgd types.NamespacedName, uid types.UID) ([]*quota.Workload, error) {
	list := workloads.List()
	if err := from.List(ctx, list, client.InNamespace(dgd.Namespace), client.MatchingLabels{quota.LabelGraphUID: string(uid)},
		client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing the Workloads of deployment %s: %w", dgd.Name, err)
	}
	all := make([]*quota.Workload, 0, len(list.Items))
	for i := range list.Items {
		w, err := decode(&list.Items[i])
		if err != nil {
			return nil, err
		}
		all = append(all, w)
	}
	return all, nil
}

// decoded is a Workload decoded from one version of its object.
type decoded struct {
	resourceVersion string
	workload        *quota.Workload
}

// byUID caches decoded Workloads. Three controllers read all Workloads of a deployment in each reconcile, and few of these Workloads have
// changed.
var byUID = lru.New(maxDecoded)

// maxDecoded is how many decoded Workloads are cached.
const maxDecoded = 4096

// decode returns the Workload of an object. The result is shared, so callers must not change it.
func decode(object *unstructured.Unstructured) (*quota.Workload, error) {
	uid, version := object.GetUID(), object.GetResourceVersion()
	if known, is := byUID.Get(uid); is && known.(decoded).resourceVersion == version {
		return known.(decoded).workload, nil
	}
	w := &quota.Workload{}
	if err := external.Read(object, w); err != nil {
		return nil, err
	}
	if uid != "" && version != "" {
		byUID.Add(uid, decoded{version, w})
	}
	return w, nil
}
