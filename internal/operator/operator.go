// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package operator connects all parts of the operator in one program. Run shows the whole operator on one screen.
package operator

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/event"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/controller/clustertopology"
	graphcontroller "github.com/trellis-k8s/trellis/internal/controller/dynamographdeployment"
	"github.com/trellis-k8s/trellis/internal/controller/nodelabels"
	"github.com/trellis-k8s/trellis/internal/controller/quota"
	"github.com/trellis-k8s/trellis/internal/controller/scalingadapter"
	"github.com/trellis-k8s/trellis/internal/controller/scalinggroup"
	"github.com/trellis-k8s/trellis/internal/controller/storageversion"
	"github.com/trellis-k8s/trellis/internal/leader"
	"github.com/trellis-k8s/trellis/internal/preflight"
	"github.com/trellis-k8s/trellis/internal/provider"
	quotas "github.com/trellis-k8s/trellis/internal/quota"
	"github.com/trellis-k8s/trellis/internal/record"
	"github.com/trellis-k8s/trellis/internal/scheduler"
	"github.com/trellis-k8s/trellis/internal/topologybinding"
	"github.com/trellis-k8s/trellis/internal/version"
	"github.com/trellis-k8s/trellis/internal/webhook"
)

// leaderElectionID is the name of the leader's lease in the shipped manifests.
const leaderElectionID = "trellis-manager.trellis.dev"

// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=trellis-system,resources=leases,verbs=create
// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=trellis-system,resources=leases,resourceNames=trellis-manager.trellis.dev,verbs=get;update
// +kubebuilder:rbac:groups=events.k8s.io,namespace=trellis-system,resources=events,verbs=create;patch
// +kubebuilder:rbac:groups="",namespace=trellis-system,resources=events,verbs=create;patch

// NewScheme returns a scheme with every kind that the operator reads or writes.
func NewScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme,
		nvidiav1alpha1.AddToScheme, nvidiav1beta1.AddToScheme, grovev1alpha1.AddToScheme, trellisv1alpha1.AddToScheme,
		topologybinding.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			panic(err) // a kind is registered twice: a bug
		}
	}
	return scheme
}

// Run sets up the entire operator and runs it until ctx ends.
func Run(ctx context.Context, restConfig *rest.Config, o Options) error {
	restConfig = rest.CopyConfig(restConfig)
	restConfig.QPS, restConfig.Burst = o.QPS, o.Burst
	certificate := &webhook.Certificate{}
	fence := leader.NewFence(leader.LeaseDuration, cmp.Or[clock.PassiveClock](o.clock, clock.RealClock{}))
	mgr, err := newManager(ctx, restConfig, o, certificate, fence)
	if err != nil {
		return err
	}
	changed := make(chan event.GenericEvent, 4096)
	checks := newChecks(mgr)
	results := newResults(changed, &checks)
	writer, err := newClient(mgr, o, false)
	if err != nil {
		return fmt.Errorf("connecting to the cluster: %w", err)
	}
	served, err := discovery.NewDiscoveryClientForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return fmt.Errorf("connecting to the cluster: %w", err)
	}
	providers, topologies := newProviders(mgr, writer, served, o)
	asks, placed := newAsks(o)
	asker := newAsker(mgr, writer, o, results, checks.Promises)
	loop := scheduler.New(mgr.GetCache(), providers, record.Bounded(mgr.GetEventRecorder("trellis-scheduler")), results,
		schedulerOptions(mgr, o, writer, served, asker, checks.Promises, asks))
	for _, add := range []func() error{
		func() error { return errors.Join(mgr.Add(loop), mgr.Add(providers)) },
		withOwnWrites(mgr, o, func(own client.Client) error {
			return (&graphcontroller.Reconciler{
				Client: writer, Deployments: own, Live: mgr.GetAPIReader(), Recorder: record.Bounded(mgr.GetEventRecorder("trellis")), Results: results,
				Changed: changed, MayRefresh: loop.MayRefresh,
				Providers: providers, Provider: o.Provider, Platform: o.Platform, MaxPods: o.MaxPodsPerGraph, Retries: o.retries,
				ChecksDenied: checks.Denied,
			}).SetupWithManager(ctx, mgr)
		}),
		withOwnWrites(mgr, o, func(own client.Client) error {
			return (&scalingadapter.Reconciler{Client: own, Live: mgr.GetAPIReader(), Recorder: record.Bounded(mgr.GetEventRecorder("trellis")),
				Clock: clock.RealClock{}, MaxPods: o.MaxPodsPerGraph}).SetupWithManager(mgr)
		}),
		withOwnWrites(mgr, o, func(own client.Client) error {
			return setUpScalingGroups(ctx, mgr, own, writer, providers, loop, asks, placed, o)
		}),
		withOwnWrites(mgr, o, func(own client.Client) error {
			return (&clustertopology.Reconciler{Client: own, Recorder: record.Bounded(mgr.GetEventRecorder("trellis")), Providers: providers,
				Topologies: topologies, Bindings: bindingsOf(mgr)}).SetupWithManager(mgr)
		}),
		func() error { return quota.SetupWithManager(mgr, writer, providers, checks, loop.RecordOf, o.retries) },
		func() error { return asker.setUp(mgr, loop, providers, o) },
		func() error { return storageversion.SetupWithManager(mgr, o.WatchNamespaces) },
		func() error { return (&nodelabels.Reconciler{Client: writer}).SetupWithManager(mgr) },
	} {
		if err := add(); err != nil {
			return fmt.Errorf("setting up: %w", err)
		}
	}
	front, err := newFront(ctx, restConfig, o, mgr, certificate)
	if err != nil {
		return fmt.Errorf("setting up: %w", err)
	}
	return front.runBefore(ctx, leader.Manager{Manager: mgr, Fence: fence})
}

// newManager connects to the cluster, and checks that the CustomResourceDefinitions in the cluster are Trellis' own.
func newManager(ctx context.Context, restConfig *rest.Config, o Options, certificate *webhook.Certificate,
	fence *leader.Fence) (ctrl.Manager, error) {
	mgr, err := newFenced(restConfig, o, managerOptions(o, certificate), fence)
	if err != nil {
		return nil, fmt.Errorf("connecting to the cluster: %w", err)
	}
	mgr.GetLogger().Info("starting Trellis", "version", version.Get().String())
	if err := preflight.Check(ctx, mgr.GetAPIReader()); err != nil {
		return nil, err
	}
	return mgr, addIndexes(ctx, mgr.GetFieldIndexer())
}

// newFenced returns a manager. With leader election, the fence blocks all writes of the manager, except writes of the lease, while the
// lease is not valid.
func newFenced(restConfig *rest.Config, o Options, options ctrl.Options, fence *leader.Fence) (ctrl.Manager, error) {
	if !o.LeaderElect {
		return ctrl.NewManager(restConfig, options)
	}
	lock, err := leader.NewLock(restConfig, types.NamespacedName{Namespace: o.Namespace, Name: leaderElectionID}, fence)
	if err != nil {
		return nil, err
	}
	options.LeaderElectionResourceLockInterface = lock
	restConfig = rest.CopyConfig(restConfig)
	restConfig.Wrap(fence.Wrap)
	mgr, err := ctrl.NewManager(restConfig, options)
	if err != nil {
		return nil, err
	}
	lock.RecordTo(mgr.GetEventRecorderFor(lock.Identity())) //nolint:staticcheck // client-go's election has no recorder of the newer events
	return mgr, nil
}

func schedulerOptions(mgr ctrl.Manager, o Options, writer client.Client, server discovery.ServerVersionInterfaceWithContext, asker *asker,
	promises *quotas.Promises, asks *scheduler.Asks) scheduler.Options {
	return scheduler.Options{
		RequeueAfter: o.RequeueAfter, HoldFor: o.HoldFor, ReserveDomainAfter: o.ReserveDomainAfter, ReserveDomainFor: o.ReserveDomainFor,
		ReserveShare:    o.ReserveShare,
		MetricResources: o.MetricResources, MetricGraphs: o.GraphMetrics, IgnoredResources: o.IgnoredResources, Mapper: mgr.GetRESTMapper(),
		Server: server, Namespace: o.Namespace, Records: writer, Live: mgr.GetAPIReader(),
		Leaving: o.Leaving, Clear: asker.clear(), Promises: promises, Asks: asks,
		RepackAfter: o.RepackAfter, RepackRest: o.RepackRest, RepackMaxGPUs: o.RepackMaxGPUs, Moves: writer,
	}
}

// newAsks returns the store of replicas for which scaling groups request places before they create the pods, and a channel with the scaling
// groups whose requests were answered. Both are nil if all gangs are created gated.
func newAsks(o Options) (*scheduler.Asks, chan event.GenericEvent) {
	if o.GateAllPods {
		return nil, nil
	}
	placed := make(chan event.GenericEvent, 4096)
	return scheduler.NewAsks(func(group types.NamespacedName) {
		about := &trellisv1alpha1.ScalingGroup{ObjectMeta: metav1.ObjectMeta{Namespace: group.Namespace, Name: group.Name}}
		placed <- event.GenericEvent{Object: about}
	}), placed
}

// newChecks returns the dependencies for setting Kueue's AdmissionChecks. newResults adds the scheduler's results to the dependencies.
func newChecks(mgr ctrl.Manager) quota.Checks {
	return quota.Checks{
		Live: mgr.GetAPIReader(), Promises: quotas.NewPromises(), Changed: make(chan event.GenericEvent, 4096), Denied: &quotas.Denied{},
		Waits: quotas.DefaultWaits, Clock: clock.RealClock{},
	}
}

// newResults returns the scheduler's results, and stores them in checks. A new result for a deployment triggers the graph controller. If
// the deployment waits for AdmissionChecks, the result also triggers the quota controller.
func newResults(changed chan<- event.GenericEvent, checks *quota.Checks) *scheduler.Results {
	results := scheduler.NewResults(func(name types.NamespacedName) {
		about := &nvidiav1beta1.DynamoGraphDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name}}
		changed <- event.GenericEvent{Object: about}
		if len(checks.Promises.Of(name)) > 0 {
			checks.Changed <- event.GenericEvent{Object: about}
		}
	})
	checks.Results, checks.Graphs = results, changed
	return results
}

// addIndexes adds the cache indexes that several controllers use.
func addIndexes(ctx context.Context, indexer client.FieldIndexer) error {
	if err := scheduler.AddIndexes(ctx, indexer); err != nil {
		return err
	}
	return scalingadapter.AddIndexes(ctx, indexer)
}

// withOwnWrites sets up a controller with its own client, whose reads wait until the cache shows the controller's own writes. It is for
// controllers that would otherwise write or announce a change twice. A controller does not wait for the writes of other controllers.
func withOwnWrites(mgr ctrl.Manager, o Options, setUp func(client.Client) error) func() error {
	return func() error {
		c, err := newClient(mgr, o, true)
		if err != nil {
			return fmt.Errorf("connecting to the cluster: %w", err)
		}
		return setUp(patient{Client: c, wait: cmp.Or(o.ownWritesWithin, ownWritesWithin), deletes: &ownDeletes{}})
	}
}

// setUpScalingGroups sets up the scalinggroup controller, and the responder to Evictions. own is a client whose reads wait for its own
// writes.
func setUpScalingGroups(ctx context.Context, mgr ctrl.Manager, own, writer client.Client, providers *provider.Registry,
	loop *scheduler.Scheduler, asks *scheduler.Asks, placed <-chan event.GenericEvent, o Options) error {
	responds, err := respondToEvictions(mgr, writer, o)
	if err != nil {
		return err
	}
	return (&scalinggroup.Reconciler{
		Client: own, Live: mgr.GetAPIReader(), Domains: writer, Providers: providers, MaxPods: o.MaxPodsPerGraph, HoldFor: o.HoldFor,
		Retries: o.retries, Asks: asks, Placed: placed, Recorded: loop.Recorded,
		Leaving: o.Leaving, MoveTimeout: o.MoveTimeout, Responds: responds,
	}).SetupWithManager(ctx, mgr)
}

// newClient returns a client that reads from the manager's cache. If ownWrites is true, its reads wait until the cache shows the client's
// own writes.
func newClient(mgr ctrl.Manager, o Options, ownWrites bool) (client.Client, error) {
	create := o.NewClient
	if create == nil {
		create = client.New
	}
	return create(mgr.GetConfig(), client.Options{
		HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(),
		Cache: &client.CacheOptions{Reader: mgr.GetCache(), EnableReadYourWritesConsistency: &ownWrites},
	})
}

func managerOptions(o Options, certificate *webhook.Certificate) ctrl.Options {
	return ctrl.Options{
		Scheme:                        NewScheme(),
		Cache:                         cacheOptions(o.WatchNamespaces),
		NewCache:                      newCache(o.LookEvery),
		Metrics:                       metricsOptions(o, certificate),
		LeaderElection:                o.LeaderElect,
		LeaderElectionID:              leaderElectionID,
		LeaderElectionReleaseOnCancel: true,
		LeaseDuration:                 ptr.To(leader.LeaseDuration),
		RenewDeadline:                 ptr.To(leader.RenewDeadline),
		RetryPeriod:                   ptr.To(leader.RetryPeriod),
		Controller:                    ctrlconfig.Controller{SkipNameValidation: ptr.To(o.NewClient != nil)},
	}
}
