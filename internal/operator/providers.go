// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"

	"k8s.io/client-go/discovery"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	capacitycontroller "github.com/trellis-k8s/trellis/internal/controller/capacity"
	"github.com/trellis-k8s/trellis/internal/controller/clustertopology"
	"github.com/trellis-k8s/trellis/internal/controller/quota"
	"github.com/trellis-k8s/trellis/internal/provider"
	"github.com/trellis-k8s/trellis/internal/provider/addon"
	gates "github.com/trellis-k8s/trellis/internal/provider/gates/placer"
	groveworkload "github.com/trellis-k8s/trellis/internal/provider/grove/workload"
	kaiplacer "github.com/trellis-k8s/trellis/internal/provider/kai/placer"
	lwsmaker "github.com/trellis-k8s/trellis/internal/provider/lws/maker"
	podgroup "github.com/trellis-k8s/trellis/internal/provider/podgroup/placer"
	"github.com/trellis-k8s/trellis/internal/strip"
)

// newProviders returns all providers, and the providers that need their own topology objects.
func newProviders(mgr ctrl.Manager, writer client.Client, served discovery.DiscoveryInterface,
	o Options) (*provider.Registry, []clustertopology.ProviderTopology) {
	var providers *provider.Registry
	ready := func(ctx context.Context, name string) bool { return providers.State(ctx, name).Ready }
	all, topologies := allProviders(writer, mgr.GetAPIReader(), served, o.Namespace, ready)
	cluster := addon.Cluster{Served: served, Live: mgr.GetAPIReader(), Namespaces: o.WatchNamespaces}
	all.Others = []provider.Provider{quota.Kueue(cluster), capacitycontroller.Autoscaler(cluster)}
	providers = provider.New(provider.Options{Open: ownCache(mgr, o), LookEvery: o.LookEvery}, all)
	return providers, topologies
}

// allProviders constructs the providers that package specs describes. A new provider needs a line here and a line in package specs. ready
// reports whether a provider works in this cluster.
func allProviders(
	writer client.Client, live client.Reader, served discovery.ServerResourcesInterface, namespace string, ready func(ctx context.Context,
		name string) bool,
) (provider.All, []clustertopology.ProviderTopology) {
	pods := gates.Placer{Client: writer, Live: live}
	kai, grove := kaiplacer.New(writer, live), groveworkload.New(writer, live)
	grove.TopologyKept = func(ctx context.Context) bool { return ready(ctx, kai.Name()) }
	groups := podgroup.Placer{Placer: pods, Discovery: served, Composite: &podgroup.Composite{}, Namespace: namespace}
	return provider.All{
			Placers:   []provider.Placer{pods, groups, kai},
			Makers:    []provider.Maker{lwsmaker.New(writer, live)},
			Workloads: []provider.Workload{grove},
		}, []clustertopology.ProviderTopology{
			{Provider: kai.Name(), For: []string{grove.Name()}, Keep: kai.KeepTopology}, // first: Grove's binding refers to it
			{Provider: grove.Name(), Keep: grove.KeepBinding},
		}
}

// ownCache returns a function that creates caches separate from the manager's cache, for kinds that the cluster may start or stop serving.
func ownCache(mgr ctrl.Manager, o Options) provider.Opener {
	return func(watches []provider.Watch) (cache.Cache, error) {
		options := cache.Options{
			HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(),
			DefaultTransform: strip.Object, ByObject: map[client.Object]cache.ByObject{},
		}
		for _, w := range watches {
			if w.Label != nil {
				options.ByObject[w.Object] = cache.ByObject{Label: w.Label}
			}
		}
		if len(o.WatchNamespaces) > 0 {
			options.DefaultNamespaces = map[string]cache.Config{}
			for _, ns := range o.WatchNamespaces {
				options.DefaultNamespaces[ns] = cache.Config{}
			}
		}
		return cache.New(mgr.GetConfig(), options)
	}
}
