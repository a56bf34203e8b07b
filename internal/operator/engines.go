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
	"github.com/trellis-k8s/trellis/internal/engine"
	"github.com/trellis-k8s/trellis/internal/engine/gates"
	groveworkload "github.com/trellis-k8s/trellis/internal/engine/grove/workload"
	kaiplacer "github.com/trellis-k8s/trellis/internal/engine/kai/placer"
	lwsmaker "github.com/trellis-k8s/trellis/internal/engine/lws/maker"
	"github.com/trellis-k8s/trellis/internal/engine/podgroup"
)

// newEngines returns every engine there is, and those that have a topology object of their own.
func newEngines(mgr ctrl.Manager, writer client.Client, o Options) (*engine.Engines, []clustertopology.Peer, error) {
	served, err := discovery.NewDiscoveryClientForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return nil, nil, err
	}
	pods := gates.Placer{Client: writer, Live: mgr.GetAPIReader()}
	gated := pods
	gated.NameNodes = true
	kai, grove := kaiplacer.New(writer, mgr.GetAPIReader()), groveworkload.New(writer, mgr.GetAPIReader())
	peers := []clustertopology.Peer{
		{Engine: kai.Name(), For: []string{grove.Name()}, Keep: kai.KeepTopology}, // first: the binding refers to it
		{Engine: grove.Name(), Keep: grove.KeepBinding},
	}
	engines := engine.New(engine.Options{Open: ownCache(mgr, o)},
		gated,
		podgroup.Placer{Placer: pods, Discovery: served, Namespace: o.Namespace},
		kai,
		grove,
		lwsmaker.New(writer, mgr.GetAPIReader()),
	)
	grove.TopologyKept = func(ctx context.Context) bool { return engines.State(ctx, kai.Name()).Ready }
	return engines, peers, nil
}

// ownCache opens caches beside the manager's for kinds that come and go.
func ownCache(mgr ctrl.Manager, o Options) engine.Opener {
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
