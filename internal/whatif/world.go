// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package whatif

import (
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/affinity"
	"github.com/trellis-k8s/trellis/internal/claims"
	"github.com/trellis-k8s/trellis/internal/constraint"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/kubescheduler"
	"github.com/trellis-k8s/trellis/internal/leaving"
	"github.com/trellis-k8s/trellis/internal/nvlink"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/topology"
	"github.com/trellis-k8s/trellis/internal/volumes"
)

// World is a cluster, given as API objects. The package never modifies these objects.
type World struct {
	Nodes      []*corev1.Node
	Pods       []*corev1.Pod
	Topologies []*grovev1alpha1.ClusterTopology
	// Priorities, Runtimes and Limits are the objects that admission applies to new pods.
	Priorities []*schedulingv1.PriorityClass
	Runtimes   []*nodev1.RuntimeClass
	Limits     []*corev1.LimitRange
	// Devices are the DeviceClasses. They serve extended resources that nodes do not offer themselves. Ignored names the resources that the
	// kube-scheduler ignores; see [topology.IgnoredResources].
	Devices []*resourcev1.DeviceClass
	Ignored []string
	// Leaving are the rules that determine which nodes are about to leave the cluster. Rest is how long a new replica does not move; 0 for
	// [repack.Rest].
	Leaving leaving.Rules
	Rest    time.Duration
	// ComputeDomains are the NVLink domains that pods may join.
	ComputeDomains []*nvlink.ComputeDomain
	// Namespaces are the Namespace objects. Affinity rules may select namespaces by their labels.
	Namespaces []*corev1.Namespace
	// Volumes determine the nodes on which pods can use their volume claims. By default, a missing claim restricts nothing. If AllVolumes
	// is set, pods wait for a missing claim.
	Volumes    Volumes
	AllVolumes bool
	// Claims and the DeviceClasses in Devices describe the devices and their allocation to resource claims. By default, a claim with
	// missing objects restricts nothing. If AllClaims is set, pods wait for the missing objects. Allocator allocates devices to claims; if
	// it is nil, claims are not counted.
	Claims    Claims
	AllClaims bool
	Allocator claims.Allocator
	// Groups and Graphs are the existing ScalingGroups and deployments. They may be empty if only new deployments are planned.
	Groups []*trellisv1alpha1.ScalingGroup
	Graphs []*nvidiav1beta1.DynamoGraphDeployment
	// Placements are the GraphPlacements of Graphs.
	Placements []*trellisv1alpha1.GraphPlacement
	// Now is the time of the observation; zero if it does not matter.
	Now time.Time
	// Version of the API server, which determines the filters of the kube-scheduler; "": unknown.
	Version string
}

// ignoresFeatures reports whether the kube-scheduler ignores the features that nodes declare. If the Kubernetes version is unknown, it
// returns true unless a node declares features.
func (w *World) ignoresFeatures() bool {
	if w.Version == "" {
		return !slices.ContainsFunc(w.Nodes, func(n *corev1.Node) bool { return len(n.Status.DeclaredFeatures) > 0 })
	}
	return !kubescheduler.Of(w.Version).HasPlugin(kubescheduler.NodeDeclaredFeatures)
}

// affinity returns a binder that applies affinity rules as the kube-scheduler of the world's version does.
func (w *World) affinity() *affinity.Binder {
	return &affinity.Binder{Namespaces: w.namespaceLabels(), CountsAll: kubescheduler.SpreadCountsAll(w.Version)}
}

// Volumes are the objects that determine where the kube-scheduler places pods with volumes.
type Volumes struct {
	Claims     []*corev1.PersistentVolumeClaim
	Volumes    []*corev1.PersistentVolume
	Classes    []*storagev1.StorageClass
	Nodes      []*storagev1.CSINode
	Drivers    []*storagev1.CSIDriver
	Capacities []*storagev1.CSIStorageCapacity
}

// store returns the volumes in the form that plans use. If all is false, a missing claim restricts nothing.
func (v *Volumes) store(all bool) *volumes.Store {
	s := volumes.NewStore()
	s.Partial = !all
	setAll(s, v.Claims)
	setAll(s, v.Volumes)
	setAll(s, v.Classes)
	setAll(s, v.Nodes)
	setAll(s, v.Drivers)
	setAll(s, v.Capacities)
	return s
}

func setAll[T any](s *volumes.Store, list []T) {
	for _, one := range list {
		s.Set(one)
	}
}

// Claims are the objects that determine where the kube-scheduler places pods with devices.
type Claims struct {
	Slices    []*resourcev1.ResourceSlice
	Claims    []*resourcev1.ResourceClaim
	Templates []*resourcev1.ResourceClaimTemplate
	Taints    []*resourcev1.DeviceTaintRule
}

// claimStore returns the devices and their claims in the form that plans use.
func (w *World) claimStore() *claims.Store {
	s := claims.NewStore(w.Allocator)
	s.Partial = !w.AllClaims
	for _, one := range w.Devices {
		s.Set(one)
	}
	for _, one := range w.Claims.Taints {
		s.Set(one)
	}
	for _, one := range w.Claims.Slices {
		s.Set(one)
	}
	for _, one := range w.Claims.Templates {
		s.Set(one)
	}
	for _, one := range w.Claims.Claims {
		s.Set(one)
	}
	return s
}

// namespaceLabels returns the labels of the namespaces, by name.
func (w *World) namespaceLabels() map[string]map[string]string {
	out := make(map[string]map[string]string, len(w.Namespaces))
	for _, ns := range w.Namespaces {
		out[ns.Name] = ns.Labels
	}
	return out
}

// Topology returns the ClusterTopology of that name, or nil.
func (w *World) Topology(name string) *grovev1alpha1.ClusterTopology {
	i := slices.IndexFunc(w.Topologies, func(ct *grovev1alpha1.ClusterTopology) bool { return ct.Name == name && name != "" })
	if i < 0 {
		return nil
	}
	return w.Topologies[i]
}

// DefaultTopology returns the oldest default topology, or nil.
func (w *World) DefaultTopology() *grovev1alpha1.ClusterTopology {
	if defaults := w.defaultTopologies(); len(defaults) > 0 {
		return defaults[0]
	}
	return nil
}

// defaultTopologies returns the default topologies, the oldest first.
func (w *World) defaultTopologies() []*grovev1alpha1.ClusterTopology {
	topologies := make([]grovev1alpha1.ClusterTopology, 0, len(w.Topologies))
	for _, ct := range w.Topologies {
		topologies = append(topologies, *ct)
	}
	return constraint.Defaults(topologies)
}

// DomainsOf returns the ComputeDomains of a namespace, by name.
func (w *World) DomainsOf(namespace string) (domains []nvlink.ComputeDomain) {
	for _, domain := range w.ComputeDomains {
		if domain.Namespace == namespace {
			domains = append(domains, *domain)
		}
	}
	slices.SortFunc(domains, func(a, b nvlink.ComputeDomain) int { return strings.Compare(a.Name, b.Name) })
	return domains
}

// Graph returns the existing deployment of that name, or nil.
func (w *World) Graph(name types.NamespacedName) *nvidiav1beta1.DynamoGraphDeployment {
	i := slices.IndexFunc(w.Graphs, func(dgd *nvidiav1beta1.DynamoGraphDeployment) bool { return nameOf(dgd) == name })
	if i < 0 {
		return nil
	}
	return w.Graphs[i]
}

func nameOf(o metav1.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}
}

// index finds scaling groups by graph or name, and pods by scaling group or pod ID.
type index struct {
	// groups are the existing scaling groups, by graph and component.
	groups map[types.NamespacedName]map[string]*trellisv1alpha1.ScalingGroup
	// pods by the name of their scaling group.
	pods map[types.NamespacedName][]*corev1.Pod
	// names maps each pod ID to the pod's name, and byID maps each pod ID to the pod.
	names map[string]types.NamespacedName
	byID  map[string]*corev1.Pod
	// named maps the names of scaling groups to the groups.
	named map[types.NamespacedName]*trellisv1alpha1.ScalingGroup
}

func newIndex(w *World) index {
	x := index{
		groups: map[types.NamespacedName]map[string]*trellisv1alpha1.ScalingGroup{},
		pods:   map[types.NamespacedName][]*corev1.Pod{}, names: map[string]types.NamespacedName{},
		byID: map[string]*corev1.Pod{}, named: map[types.NamespacedName]*trellisv1alpha1.ScalingGroup{},
	}
	for _, sg := range w.Groups {
		if sg.DeletionTimestamp != nil {
			continue
		}
		name := types.NamespacedName{Namespace: sg.Namespace, Name: sg.Spec.Graph}
		if x.groups[name] == nil {
			x.groups[name] = map[string]*trellisv1alpha1.ScalingGroup{}
		}
		x.groups[name][sg.Spec.Component], x.named[nameOf(sg)] = sg, sg
	}
	for _, pod := range w.Pods {
		x.names[topology.PodID(pod)], x.byID[topology.PodID(pod)] = nameOf(pod), pod
		if group := pod.Labels[render.LabelScalingGroup]; group != "" {
			key := types.NamespacedName{Namespace: pod.Namespace, Name: group}
			x.pods[key] = append(x.pods[key], pod)
		}
	}
	return x
}

// adopt gives each planned scaling group the UID and status of the existing group of its component, or else a new UID.
func adopt(groups []*trellisv1alpha1.ScalingGroup, existing map[string]*trellisv1alpha1.ScalingGroup) {
	for _, sg := range groups {
		sg.UID = types.UID("planned/" + sg.Namespace + "/" + sg.Name)
		if old := existing[sg.Spec.Component]; old != nil {
			sg.UID, sg.Status = old.UID, *old.Status.DeepCopy()
		}
	}
}

// members returns the pods of a group, sorted by name. If the group itself is not among the world's objects, members selects the pods by
// their labels and returns copies that the planned group owns.
func (x *index) members(sg *trellisv1alpha1.ScalingGroup, exists bool) []*corev1.Pod {
	var out []*corev1.Pod
	for _, pod := range x.pods[nameOf(sg)] {
		switch {
		case !exists && pod.Labels[render.LabelGraph] == render.LabelValue(sg.Spec.Graph):
			pod = pod.DeepCopy()
			own(pod, sg)
		case !render.Member(pod, sg):
			continue
		}
		out = append(out, pod)
	}
	slices.SortFunc(out, comparePods)
	return out
}

func own(pod *corev1.Pod, sg *trellisv1alpha1.ScalingGroup) {
	pod.OwnerReferences = []metav1.OwnerReference{{Kind: "ScalingGroup", Name: sg.Name, UID: sg.UID, Controller: ptr.To(true)}}
}

// reserve reserves capacity for all released pods that are not bound yet. For pods whose group the world lacks, the levels are unknown. The
// node selectors of these pods still restrict them to the pinned domain.
func (x *index) reserve(c *topology.Cluster) {
	real := map[types.NamespacedName]*trellisv1alpha1.ScalingGroup{}
	for _, groups := range x.groups {
		for _, sg := range groups {
			real[nameOf(sg)] = sg
		}
	}
	names := slices.SortedFunc(maps.Keys(x.pods), func(a, b types.NamespacedName) int { return strings.Compare(a.String(), b.String()) })
	for _, name := range names {
		sg, exists := real[name], true
		if sg == nil {
			exists = false
			sg = &trellisv1alpha1.ScalingGroup{ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name, UID: "planned"}}
			sg.Spec.Graph = x.pods[name][0].Labels[render.LabelGraph]
		}
		gang.Reserve(c, gang.Observation{Groups: []*trellisv1alpha1.ScalingGroup{sg}, Pods: x.members(sg, exists)})
	}
}
