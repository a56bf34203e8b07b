// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
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

// tellOfEngines has the deployments and scaling groups of an engine reconciled when its state changed, and a deployment when an object of
// its engine's own kinds did.
func tellOfEngines(engines *engine.Engines, reader client.Reader, graphs, groups chan<- event.GenericEvent) {
	deployment := func(name types.NamespacedName) {
		graphs <- event.GenericEvent{Object: &nvidiav1beta1.DynamoGraphDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name}}}
	}
	engines.OnChange(func(name types.NamespacedName) {
		if name.Namespace == "" {
			return // an engine's topology object, which the topologies' controller hears of
		}
		deployment(name)
		all := &trellisv1alpha1.ScalingGroupList{}
		if reader.List(context.Background(), all, client.InNamespace(name.Namespace)) != nil {
			return
		}
		for i := range all.Items { // counted there, not by pods alone
			if sg := &all.Items[i]; sg.Spec.Graph == name.Name && (engines.Workload(sg.Spec.Engine) != nil || sg.Spec.Workload != "") {
				groups <- event.GenericEvent{Object: sg}
			}
		}
	})
	engines.OnState(func(string) {
		dgds, all := &nvidiav1beta1.DynamoGraphDeploymentList{}, &trellisv1alpha1.ScalingGroupList{}
		if reader.List(context.Background(), dgds) != nil || reader.List(context.Background(), all) != nil {
			return // the cache has ended, and so has the program
		}
		for i := range dgds.Items {
			deployment(client.ObjectKeyFromObject(&dgds.Items[i]))
		}
		for i := range all.Items {
			groups <- event.GenericEvent{Object: &all.Items[i]}
		}
	})
}
