// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package filters

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodevolumelimits"
	schedulerruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
)

// scheduler runs the kube-scheduler's filters on a cluster.
type scheduler struct {
	fwk.SharedLister // the snapshot; each change replaces it
	t                testing.TB
	plugins          framework.Framework
	nodes            []*corev1.Node
	// devices are empty if no pod claims any.
	devices *devices
}

// newScheduler creates a scheduler for nodes, the objects that plugins look up, and the objects of device claims.
func newScheduler(t testing.TB, nodes []*corev1.Node, claimed []runtime.Object, objects ...runtime.Object) *scheduler {
	ctx := t.Context()
	client := fake.NewClientset(objects...)
	factory := informers.NewSharedInformerFactory(client, 0)
	s := &scheduler{t: t, nodes: nodes, devices: newDevices(t, claimed)}
	s.Set(nil)
	enabled, err := schedulerruntime.NewFramework(ctx, plugins.NewInTreeRegistry(), defaultProfile(t),
		schedulerruntime.WithSnapshotSharedLister(s), schedulerruntime.WithInformerFactory(factory), schedulerruntime.WithClientSet(client),
		schedulerruntime.WithSharedDRAManager(s.devices),
		schedulerruntime.WithSharedCSIManager(nodevolumelimits.NewCSIManager(factory.Storage().V1().CSINodes().Lister())))
	if err != nil {
		t.Fatal(err)
	}
	s.plugins = enabled
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	return s
}

// defaultProfile returns the default profile of this version of the kube-scheduler, with Reserve only for devices.
func defaultProfile(t testing.TB) *config.KubeSchedulerProfile {
	defaults, err := latest.Default()
	if err != nil {
		t.Fatal(err)
	}
	profile := &defaults.Profiles[0]
	profile.Plugins.Reserve = config.PluginSet{Enabled: []config.Plugin{{Name: names.DynamicResources}}, Disabled: []config.Plugin{{Name: "*"}}}
	return profile
}

// Set replaces the bound pods.
func (s *scheduler) Set(pods []*corev1.Pod) {
	if len(s.devices.slices) > 0 {
		s.replay(pods)
	}
	s.SharedLister = internalcache.NewSnapshot(pods, s.nodes)
}

// Lets reports whether all filters accept a pod on a node.
func (s *scheduler) Lets(pod *corev1.Pod, node string) bool { return s.refusedBy(pod, node) == "" }

// refusedBy names the plugin that refuses a pod on a node; "" for none.
func (s *scheduler) refusedBy(pod *corev1.Pod, node string) string {
	ctx, state := s.t.Context(), framework.NewCycleState()
	only, status, _ := s.plugins.RunPreFilterPlugins(ctx, state, pod)
	switch {
	case !status.IsSuccess():
		return status.Plugin()
	case !only.AllNodes() && !only.NodeNames.Has(node):
		return "a PreFilter plugin"
	}
	info, err := s.NodeInfos().Get(node)
	if err != nil {
		s.t.Fatal(err)
	}
	if status := s.plugins.RunFilterPlugins(ctx, state, pod, info); !status.IsSuccess() {
		return status.Plugin()
	}
	return ""
}
