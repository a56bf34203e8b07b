// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package filters

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultbinder"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/interpodaffinity"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodeaffinity"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodeports"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/noderesources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodevolumelimits"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/podtopologyspread"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/queuesort"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/tainttoleration"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/volumebinding"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/volumerestrictions"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/volumezone"
	schedulerruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	frameworktesting "k8s.io/kubernetes/pkg/scheduler/testing/framework"
)

// scheduler is the kube-scheduler's filters on a cluster.
type scheduler struct {
	fwk.SharedLister // the snapshot, replaced by each change
	t                testing.TB
	plugins          framework.Framework
	nodes            []*corev1.Node
	// devices are empty where no pod claims any.
	devices *devices
}

// newScheduler knows nodes, the objects that plugins look up, and those of device claims.
func newScheduler(t testing.TB, nodes []*corev1.Node, claimed []runtime.Object, objects ...runtime.Object) *scheduler {
	ctx := t.Context()
	client := fake.NewClientset(objects...)
	factory := informers.NewSharedInformerFactory(client, 0)
	s := &scheduler{t: t, nodes: nodes, devices: newDevices(claimed)}
	s.Set(nil)
	plugins, err := frameworktesting.NewFramework(ctx, registered(), corev1.DefaultSchedulerName,
		schedulerruntime.WithSnapshotSharedLister(s), schedulerruntime.WithInformerFactory(factory), schedulerruntime.WithClientSet(client),
		schedulerruntime.WithSharedDRAManager(s.devices),
		schedulerruntime.WithSharedCSIManager(nodevolumelimits.NewCSIManager(factory.Storage().V1().CSINodes().Lister())))
	if err != nil {
		t.Fatal(err)
	}
	s.plugins = plugins
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	return s
}

func registered() []frameworktesting.RegisterPluginFunc {
	with := func(f func(context.Context, runtime.Object, fwk.Handle, feature.Features) (fwk.Plugin, error), args runtime.Object) schedulerruntime.PluginFactory {
		return func(ctx context.Context, _ runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
			return f(ctx, args, h, features)
		}
	}
	filter := func(name string, f schedulerruntime.PluginFactory) frameworktesting.RegisterPluginFunc {
		return frameworktesting.RegisterPluginAsExtensions(name, f, "PreFilter", "Filter")
	}
	return []frameworktesting.RegisterPluginFunc{
		frameworktesting.RegisterQueueSortPlugin(queuesort.Name, queuesort.New),
		frameworktesting.RegisterBindPlugin(defaultbinder.Name, defaultbinder.New),
		frameworktesting.RegisterFilterPlugin(tainttoleration.Name, with(tainttoleration.New, nil)),
		filter(nodeaffinity.Name, with(nodeaffinity.New, &config.NodeAffinityArgs{})),
		filter(nodeports.Name, with(nodeports.New, nil)),
		filter(noderesources.Name, with(noderesources.NewFit, &config.NodeResourcesFitArgs{
			ScoringStrategy: &config.ScoringStrategy{Type: config.LeastAllocated, Resources: []config.ResourceSpec{{Name: "cpu", Weight: 1}}}})),
		filter(interpodaffinity.Name, with(interpodaffinity.New, &config.InterPodAffinityArgs{})),
		filter(volumebinding.Name, with(volumebinding.New, &config.VolumeBindingArgs{
			BindTimeoutSeconds: 1, Shape: []config.UtilizationShapePoint{{Utilization: 0, Score: 0}, {Utilization: 100, Score: 10}}})),
		filter(volumezone.Name, with(volumezone.New, nil)),
		filter(volumerestrictions.Name, with(volumerestrictions.New, nil)),
		filter(nodevolumelimits.CSIName, with(nodevolumelimits.NewCSI, nil)),
		frameworktesting.RegisterPluginAsExtensions(dynamicresources.Name, with(dynamicresources.New, &config.DynamicResourcesArgs{}), "PreFilter", "Filter", "Reserve"),
		filter(podtopologyspread.Name, with(podtopologyspread.New, &config.PodTopologySpreadArgs{DefaultingType: config.ListDefaulting})),
	}
}

// features are those that a kube-scheduler of this version has by default.
var features = feature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate)

// Set replaces the bound pods.
func (s *scheduler) Set(pods []*corev1.Pod) {
	if len(s.devices.slices) > 0 {
		s.replay(pods)
	}
	s.SharedLister = internalcache.NewSnapshot(pods, s.nodes)
}

// Lets reports whether all filters let a pod onto a node.
func (s *scheduler) Lets(pod *corev1.Pod, node string) bool {
	ctx, state := s.t.Context(), framework.NewCycleState()
	only, status, _ := s.plugins.RunPreFilterPlugins(ctx, state, pod)
	if !status.IsSuccess() || !only.AllNodes() && !only.NodeNames.Has(node) {
		return false
	}
	info, err := s.NodeInfos().Get(node)
	if err != nil {
		s.t.Fatal(err)
	}
	return s.plugins.RunFilterPlugins(ctx, state, pod, info).IsSuccess()
}
