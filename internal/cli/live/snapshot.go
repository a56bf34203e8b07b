// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package live reads from a cluster the objects that a plan needs. It strips pods and nodes as the operator's cache does, so that even the
// largest cluster fits into the memory of a laptop.
package live

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/claims/allocator"
	"github.com/trellis-k8s/trellis/internal/cli"
	"github.com/trellis-k8s/trellis/internal/limit"
	"github.com/trellis-k8s/trellis/internal/listing"
	"github.com/trellis-k8s/trellis/internal/nvlink"
	"github.com/trellis-k8s/trellis/internal/topologybinding"
	"github.com/trellis-k8s/trellis/internal/whatif"
)

// Kinds, named by the resource and its API group as in [Snapshot.Denied].
const (
	Graphs     = "dynamographdeployments.nvidia.com"
	Groups     = "scalinggroups.trellis.dev"
	Nodes      = "nodes"
	Pods       = "pods"
	Topologies = "clustertopologies.grove.io"
	Priorities = "priorityclasses.scheduling.k8s.io"

	// Bindings are Grove's ClusterTopologyBindings, which are read as topologies (package topologybinding).
	Bindings = "clustertopologybindings.grove.io"
	// Placements are the GraphPlacements, in which the operator records where it placed the replicas of each deployment.
	Placements = "graphplacements.trellis.dev"

	runtimeClasses = "runtimeclasses.node.k8s.io"
	limitRanges    = "limitranges"
	deviceClasses  = "deviceclasses.resource.k8s.io"
	computeDomains = "computedomains.resource.nvidia.com"
	operators      = "deployments.apps"
	namespaces     = "namespaces"
	claims         = "persistentvolumeclaims"
	volumes        = "persistentvolumes"
	storageClasses = "storageclasses.storage.k8s.io"
	csiNodes       = "csinodes.storage.k8s.io"
	csiDrivers     = "csidrivers.storage.k8s.io"
	csiCapacities  = "csistoragecapacities.storage.k8s.io"
	slicesOf       = "resourceslices.resource.k8s.io"
	deviceClaims   = "resourceclaims.resource.k8s.io"
	claimTemplates = "resourceclaimtemplates.resource.k8s.io"
	deviceTaints   = "devicetaintrules.resource.k8s.io"
)

// optional kinds improve a plan but are not required.
var optional = slices.Concat(
	[]string{Bindings, Placements, Priorities, runtimeClasses, limitRanges, deviceClasses, computeDomains, operators, namespaces},
	ofVolumes, ofClaims,
)

// ofVolumes are the kinds that determine on which nodes volumes can be used.
var ofVolumes = []string{claims, volumes, storageClasses, csiNodes, csiDrivers, csiCapacities}

// ofClaims are the kinds that describe devices, except for deviceClasses.
var ofClaims = []string{slicesOf, deviceClaims, claimTemplates, deviceTaints}

// page is the maximum number of objects per list request.
const page = 1000

// Snapshot is a cluster at one time.
type Snapshot struct {
	whatif.World
	// Denied are the rights that the user lacks, e.g. "list nodes". World lacks the objects of denied kinds.
	Denied []string
	// NotInstalled is the error for the first required kind that the cluster does not serve; nil if it serves all required kinds.
	NotInstalled error

	bindings []*topologybinding.Binding
}

// maxLacking is the maximum number of missing rights that Lacking names.
const maxLacking = 4

// Lacking names the rights that the user lacks, at most maxLacking of them: "list nodes, list pods and 3 more".
func (s *Snapshot) Lacking() string { return limit.Join(s.Denied, len(s.Denied), maxLacking, ", ") }

// Complete returns an error that names the missing rights; nil if the user may list all required kinds.
func (s *Snapshot) Complete() error {
	needed := slices.DeleteFunc(slices.Clone(s.Denied), func(right string) bool {
		return slices.Contains(optional, strings.TrimPrefix(right, "list "))
	})
	if len(needed) == 0 {
		return nil
	}
	return fmt.Errorf("you may not %s in the whole cluster, which a plan needs: ask for a ClusterRole with these rights", strings.Join(needed,
		", "))
}

// Lacks reports whether a kind could not be listed in the entire cluster.
func (s *Snapshot) Lacks(kind string) bool { return slices.Contains(s.Denied, "list "+kind) }

// Read lists all kinds that a plan needs, or only the given kinds. Kinds that the cluster does not serve are empty.
func Read(ctx context.Context, c client.Reader, only ...string) (*Snapshot, error) {
	s := &Snapshot{}
	s.AllVolumes, s.AllClaims, s.Allocator = len(only) == 0, len(only) == 0, allocator.New()
	if server, is := c.(discovery.ServerVersionInterfaceWithContext); is && len(only) == 0 {
		var err error
		if s.Version, err = serverVersion(ctx, server); err != nil {
			return nil, err
		}
	}
	for _, kind := range s.kinds() {
		if len(only) > 0 && !slices.Contains(only, kind.name) {
			continue
		}
		if err := s.listed(kind.name, kind.read(ctx, c, "")); err != nil {
			return nil, err
		}
	}
	s.Topologies = topologybinding.Merge(s.Topologies, s.bindings)
	return s, nil
}

// listed handles the error of listing a kind. It records a missing right or a kind that is not served, and returns other errors.
func (s *Snapshot) listed(kind string, err error) error {
	switch {
	case apierrors.IsForbidden(err):
		s.Denied = append(s.Denied, "list "+kind)
		s.AllVolumes = s.AllVolumes && !slices.Contains(ofVolumes, kind)
		s.AllClaims = s.AllClaims && kind != deviceClasses && !slices.Contains(ofClaims, kind)
	// resource.k8s.io/v1 is served since Kubernetes 1.34, its taint rules since 1.37
	case meta.IsNoMatchError(err) && slices.Contains(optional, kind):
		s.AllClaims = s.AllClaims && (kind == deviceTaints || !slices.Contains(ofClaims, kind))
	case meta.IsNoMatchError(err):
		s.NotInstalled = cmp.Or(s.NotInstalled, cli.Explain(err, "listing "+kind))
	case err != nil:
		return cli.Explain(err, "listing "+kind)
	}
	return nil
}

// Narrow lists the given kinds in one namespace, if they could not be listed in the entire cluster.
func (s *Snapshot) Narrow(ctx context.Context, c client.Reader, namespace string, kinds ...string) error {
	for _, kind := range s.kinds() {
		if !s.Lacks(kind.name) || !slices.Contains(kinds, kind.name) {
			continue
		}
		doing := "listing " + kind.name
		if namespace != "" {
			doing += " of namespace " + namespace
		}
		if err := kind.read(ctx, c, namespace); err != nil {
			return cli.Explain(err, doing)
		}
	}
	return nil
}

// kind is a kind that a plan needs. read lists its objects in one namespace or in all namespaces, and returns the API server's error.
type kind struct {
	name string
	read func(ctx context.Context, c client.Reader, namespace string) error
}

// kinds returns the kinds that a plan needs.
func (s *Snapshot) kinds() []kind {
	return []kind{
		{Nodes, into(&s.Nodes, func(l *corev1.NodeList) []corev1.Node { return l.Items }, node)},
		{Pods, into(&s.Pods, func(l *corev1.PodList) []corev1.Pod { return l.Items }, pod)},
		{Topologies, into(&s.Topologies, func(l *grovev1alpha1.ClusterTopologyList) []grovev1alpha1.ClusterTopology { return l.Items }, whole)},
		{Bindings, into(&s.bindings, func(l *topologybinding.BindingList) []topologybinding.Binding { return l.Items }, whole)},
		{Priorities, into(&s.Priorities, func(l *schedulingv1.PriorityClassList) []schedulingv1.PriorityClass { return l.Items }, whole)},
		{runtimeClasses, into(&s.Runtimes, func(l *nodev1.RuntimeClassList) []nodev1.RuntimeClass { return l.Items }, whole)},
		{limitRanges, into(&s.Limits, func(l *corev1.LimitRangeList) []corev1.LimitRange { return l.Items }, whole)},
		{deviceClasses, into(&s.Devices, func(l *resourcev1.DeviceClassList) []resourcev1.DeviceClass { return l.Items }, whole)},
		{computeDomains, into(&s.ComputeDomains, func(l *nvlink.ComputeDomainList) []nvlink.ComputeDomain { return l.Items }, whole)},
		{namespaces, into(&s.Namespaces, func(l *corev1.NamespaceList) []corev1.Namespace { return l.Items }, whole)},
		{claims, into(&s.Volumes.Claims, func(l *corev1.PersistentVolumeClaimList) []corev1.PersistentVolumeClaim { return l.Items }, volume)},
		{volumes, into(&s.Volumes.Volumes, func(l *corev1.PersistentVolumeList) []corev1.PersistentVolume { return l.Items }, volume)},
		{storageClasses, into(&s.Volumes.Classes, func(l *storagev1.StorageClassList) []storagev1.StorageClass { return l.Items }, whole)},
		{csiNodes, into(&s.Volumes.Nodes, func(l *storagev1.CSINodeList) []storagev1.CSINode { return l.Items }, whole)},
		{csiDrivers, into(&s.Volumes.Drivers, func(l *storagev1.CSIDriverList) []storagev1.CSIDriver { return l.Items }, whole)},
		{csiCapacities, into(&s.Volumes.Capacities, func(l *storagev1.CSIStorageCapacityList) []storagev1.CSIStorageCapacity {
			return l.Items
		}, whole)},
		{slicesOf, into(&s.Claims.Slices, func(l *resourcev1.ResourceSliceList) []resourcev1.ResourceSlice { return l.Items }, claim)},
		{deviceClaims, into(&s.Claims.Claims, func(l *resourcev1.ResourceClaimList) []resourcev1.ResourceClaim { return l.Items }, claim)},
		{claimTemplates, into(&s.Claims.Templates, func(l *resourcev1.ResourceClaimTemplateList) []resourcev1.ResourceClaimTemplate {
			return l.Items
		}, claim)},
		{deviceTaints, into(&s.Claims.Taints, func(l *resourcev1.DeviceTaintRuleList) []resourcev1.DeviceTaintRule { return l.Items }, claim)},
		{operators, func(ctx context.Context, c client.Reader, _ string) error { return readOperatorFlags(ctx, c, &s.World) }},
		{Groups, into(&s.Groups, func(l *trellisv1alpha1.ScalingGroupList) []trellisv1alpha1.ScalingGroup { return l.Items }, whole)},
		{Placements, into(&s.Placements, func(l *trellisv1alpha1.GraphPlacementList) []trellisv1alpha1.GraphPlacement { return l.Items }, whole)},
		{Graphs, into(&s.Graphs, func(l *nvidiav1beta1.DynamoGraphDeploymentList) []nvidiav1beta1.DynamoGraphDeployment {
			return l.Items
		}, whole)},
	}
}

// into returns a function that lists a kind into a field.
func into[L, T any, P interface {
	*L
	client.ObjectList
}](field *[]*T, items func(*L) []T, keep func(*T) (*T, error)) func(context.Context, client.Reader, string) error {
	return func(ctx context.Context, c client.Reader, namespace string) (err error) {
		*field, err = listAll[L, T, P](ctx, c, items, keep, client.InNamespace(namespace))
		return err
	}
}

// ListNodes lists the nodes of the cluster. It returns an error of the API server unchanged.
func ListNodes(ctx context.Context, c client.Reader) ([]*corev1.Node, error) {
	return listAll(ctx, c, func(l *corev1.NodeList) []corev1.Node { return l.Items }, node)
}

// Graph reads a deployment. If it does not exist, the error names existing deployments.
func Graph(ctx context.Context, c client.Reader, name types.NamespacedName) (*nvidiav1beta1.DynamoGraphDeployment, error) {
	dgd := &nvidiav1beta1.DynamoGraphDeployment{}
	err := c.Get(ctx, name, dgd)
	switch {
	case apierrors.IsNotFound(err):
		return nil, cli.FindGraph(ctx, c, name)
	case err != nil:
		return nil, cli.Explain(err, fmt.Sprintf("getting %s %s", cli.Graph.Name, name))
	}
	return dgd, nil
}

// listAll lists objects in pages. It passes each item to keep, and returns the results that are not nil.
func listAll[L, T any, P interface {
	*L
	client.ObjectList
}](ctx context.Context, c client.Reader, items func(*L) []T, keep func(*T) (*T, error), options ...client.ListOption) ([]*T, error) {
	var all []*T
	in := func(list P) []T { return items(list) }
	err := listing.Each(ctx, c, P(new(L)), in, func(one *T) error {
		item := *one // not a pointer into the page, which would keep all of it
		kept, err := keep(&item)
		if kept != nil {
			all = append(all, kept)
		}
		return err
	}, append(options, client.Limit(page))...)
	return all, err
}
