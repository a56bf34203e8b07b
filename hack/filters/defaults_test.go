// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package filters

import (
	"cmp"
	"os"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"

	"github.com/trellis-k8s/trellis/internal/claims/allocator"
	"github.com/trellis-k8s/trellis/internal/kubescheduler"
)

// linked returns the last release of the table: the kube-scheduler of this module.
func linked() kubescheduler.Defaults {
	all := kubescheduler.All()
	return all[len(all)-1]
}

// TestPluginsOfTable checks that the table has the default plugins of the linked kube-scheduler.
func TestPluginsOfTable(t *testing.T) {
	var want []string
	for _, p := range defaultProfile(t).Plugins.MultiPoint.Enabled {
		want = append(want, p.Name)
	}
	slices.Sort(want)
	if diff := gocmp.Diff(want, linked().Plugins); diff != "" {
		t.Errorf("generate the table again (hack/filters/defaults): (-kube-scheduler +table):\n%s", diff)
	}
}

// reads is a feature gate that records which gates are read.
type reads struct {
	featuregate.FeatureGate
	names []string
}

// Enabled implements featuregate.FeatureGate.
func (r *reads) Enabled(key featuregate.Feature) bool {
	r.names = append(r.names, string(key))
	return r.FeatureGate.Enabled(key)
}

// TestGatesOfTable checks that the table has the gates that plugins of the linked kube-scheduler read and that are on by default, and no
// gate that is off.
func TestGatesOfTable(t *testing.T) {
	r := &reads{FeatureGate: utilfeature.DefaultFeatureGate}
	feature.NewSchedulerFeaturesFromGates(r)
	known := utilfeature.DefaultMutableFeatureGate.GetAll()
	on := func(name string) bool {
		_, is := known[featuregate.Feature(name)]
		return is && utilfeature.DefaultFeatureGate.Enabled(featuregate.Feature(name))
	}
	for _, name := range r.names {
		if linked().HasGate(name) != on(name) {
			t.Errorf("gate %s is on: %v, in the table %v; generate the table again (hack/filters/defaults)", name, on(name), linked().HasGate(name))
		}
	}
	for _, name := range linked().Gates {
		if !on(name) {
			t.Errorf("gate %s is off, and on in the table", name)
		}
	}
}

// TestAllocatorFeatures checks that the planner's allocator has the features of the linked kube-scheduler's, each with its gate in the
// table.
func TestAllocatorFeatures(t *testing.T) {
	want := dynamicresources.AllocatorFeatures(feature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate))
	if diff := gocmp.Diff(want, allocator.Features); diff != "" {
		t.Errorf("(-kube-scheduler +planner):\n%s", diff)
	}
}

// counterparts maps gates to the planner's implementation: a situation of TestCounterparts, or the features of the allocator.
var counterparts = map[string]string{
	"NodeDeclaredFeatures": "NodeDeclaredFeatures", "VolumeLimitScaling": "VolumeLimitScaling", "DynamicResourceAllocation": "DynamicResources",
	"SidecarContainers": "SidecarContainers", "PodLevelResources": "PodLevelResources", "InPlacePodVerticalScaling": "InPlacePodVerticalScaling",
	"InPlacePodLevelResourcesVerticalScaling": "InPlacePodLevelResourcesVerticalScaling", "VolumeAttributesClass": "VolumeAttributesClass",
	"MatchLabelKeysInPodTopologySpread":      "MatchLabelKeysInPodTopologySpread",
	"NodeInclusionPolicyInPodTopologySpread": "NodeInclusionPolicyInPodTopologySpread", "DRAExtendedResource": "DRAExtendedResource",
	"DRADeviceTaintRules": allocates, "DRADeviceTaints": allocates, "DRAAdminAccess": allocates, "DRAConsumableCapacity": allocates,
	"DRADeviceBindingConditions": allocates, "DRAPartitionableDevices": allocates,
	"DRAPrioritizedList": allocates, "DRAResourceClaimDeviceStatus": allocates,
}

// allocates marks a gate of the device allocator, which the planner shares with the kube-scheduler: see TestAllocatorFeatures.
const allocates = "the allocator"

// TestEachHasCounterpart checks that each plugin and each gate of each release has a counterpart in the planner, or is listed in
// docs/placement.md as not counted, and that each default plugin that filters nodes has a counterpart.
func TestEachHasCounterpart(t *testing.T) {
	notCounted := namedAsNotCounted(t)
	for _, d := range kubescheduler.All() {
		for _, name := range d.Plugins {
			if _, has := situations[name]; has == slices.Contains(notCounted, name) {
				t.Errorf("plugin %s of %s has a counterpart: %v, and docs/placement.md says the same of it", name, d.Version, has)
			}
		}
		for _, name := range d.Gates {
			counterpart, has := counterparts[name]
			if has && counterpart != allocates && situations[counterpart].pod == nil {
				t.Errorf("gate %s: there is no situation %q", name, counterpart)
			}
			if has == slices.Contains(notCounted, name) {
				t.Errorf("gate %s of %s has a counterpart: %v, and docs/placement.md says the same of it", name, d.Version, has)
			}
		}
	}
	filters := newScheduler(t, nil, nil).plugins.ListPlugins()
	for _, set := range []config.PluginSet{filters.PreFilter, filters.Filter} {
		for _, p := range set.Enabled {
			if situations[p.Name].pod == nil && p.Name != "NodeName" { // a waiting pod has no node
				t.Errorf("plugin %s filters nodes and has no counterpart", p.Name)
			}
		}
	}
}

// namedAsNotCounted returns the plugins and gates that docs/placement.md lists as not counted.
func namedAsNotCounted(t *testing.T) (names []string) {
	text, err := os.ReadFile("../../docs/placement.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n### Filters of the kube-scheduler\n")
	section, _, _ = strings.Cut(section, "\n## ")
	for item := range strings.SplitSeq(section, "\n- ") {
		if !strings.HasPrefix(item, "**Not counted") {
			continue
		}
		for i, part := range strings.Split(item, "`") {
			if i%2 == 1 {
				names = append(names, part)
			}
		}
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Compare(a, b) })
	if len(names) < 10 {
		t.Fatalf("docs/placement.md names only %v", names)
	}
	return names
}
