// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"

	"k8s.io/client-go/discovery"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-k8s/trellis/internal/controller/clustertopology"
	"github.com/trellis-k8s/trellis/internal/provider"
	"github.com/trellis-k8s/trellis/internal/provider/gates"
	groveworkload "github.com/trellis-k8s/trellis/internal/provider/grove/workload"
	kaiplacer "github.com/trellis-k8s/trellis/internal/provider/kai/placer"
	lwsmaker "github.com/trellis-k8s/trellis/internal/provider/lws/maker"
	"github.com/trellis-k8s/trellis/internal/provider/podgroup"
)

// newProviders returns every provider there is, and those that have a topology object of their own.
func newProviders(mgr ctrl.Manager, writer client.Client, o Options) (*provider.Registry, []clustertopology.Peer, error) {
	served, err := discovery.NewDiscoveryClientForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return nil, nil, err
	}
	pods := gates.Placer{Client: writer, Live: mgr.GetAPIReader()}
	gated := pods
	gated.NameNodes = true
	kai, grove := kaiplacer.New(writer, mgr.GetAPIReader()), groveworkload.New(writer, mgr.GetAPIReader())
	peers := []clustertopology.Peer{
		{Provider: kai.Name(), For: []string{grove.Name()}, Keep: kai.KeepTopology}, // first: the binding refers to it
		{Provider: grove.Name(), Keep: grove.KeepBinding},
	}
	providers := provider.New(provider.Options{Open: ownCache(mgr, o)},
		gated,
		podgroup.Placer{Placer: pods, Discovery: served, Namespace: o.Namespace},
		kai,
		grove,
		lwsmaker.New(writer, mgr.GetAPIReader()),
	)
	grove.TopologyKept = func(ctx context.Context) bool { return providers.State(ctx, kai.Name()).Ready }
	return providers, peers, nil
}

// ownCache opens caches beside the manager's for kinds that come and go.
func ownCache(mgr ctrl.Manager, o Options) provider.Opener {
	return func() (cache.Cache, error) {
		options := cache.Options{
			HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(),
			DefaultTransform: cache.TransformStripManagedFields(),
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
