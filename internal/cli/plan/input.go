// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/claims/allocator"
	"github.com/trellis-k8s/trellis/internal/cli"
	"github.com/trellis-k8s/trellis/internal/cli/files"
	"github.com/trellis-k8s/trellis/internal/cli/live"
	"github.com/trellis-k8s/trellis/internal/field"
	"github.com/trellis-k8s/trellis/internal/nvlink"
	"github.com/trellis-k8s/trellis/internal/topologybinding"
	"github.com/trellis-k8s/trellis/internal/validation"
	"github.com/trellis-k8s/trellis/internal/whatif"
)

// Input is the world, and the deployments to plan.
type Input struct {
	world whatif.World
	plan  []wanted
}

// wanted is a deployment to plan. source is the deployment's position in a file; nil for a deployment from the cluster.
type wanted struct {
	dgd    *nvidiav1beta1.DynamoGraphDeployment
	source *files.Source
	// version is the API version in which the deployment is written. Errors use the terms of this version.
	version string
}

// at returns the error for a field of the deployment.
func (w wanted) at(path, message field.Worded) error {
	name := fmt.Sprintf("DynamoGraphDeployment %s/%s", w.dgd.Namespace, w.dgd.Name)
	if w.source != nil {
		return w.source.At(name, path.In(w.version), message.In(w.version))
	}
	return fmt.Errorf("%s: %s: %s", name, path.In(w.version), message.In(w.version))
}

func (o *options) gather(ctx context.Context, args []string) (Input, error) {
	world, namespace, err := o.base(ctx)
	if err != nil {
		return Input{}, err
	}
	in, err := Load(world, namespace, o.files, o.IOStreams)
	if err != nil {
		return in, err
	}
	if err := in.addNamed(args, namespace); err != nil {
		return in, err
	}
	return in, in.check(o.cluster)
}

// Load adds the objects of files to a world, in which they replace objects of the same name. Deployments in the files are planned.
// namespace is the default for objects without a namespace. The error joins all errors in the files. For each object whose kind a plan does
// not use, Load writes a line to streams.ErrOut.
func Load(world whatif.World, namespace string, names []string, streams genericiooptions.IOStreams) (Input, error) {
	in := Input{world: world}
	objects, skipped, err := files.Read(names, streams.In)
	for _, s := range skipped {
		fmt.Fprintf(streams.ErrOut, "%s: %s %s is skipped: a plan does not use this kind\n", s.Source, s.Kind.Kind, s.Name)
	}
	for _, object := range objects {
		if object.GetNamespace() == "" && namespaced(object.Object) {
			object.SetNamespace(namespace)
		}
	}
	errs := append(duplicates(objects), badTopologies(objects)...)
	if err != nil { // a topology may be missing, so deployments are checked without it
		errs = append(errs, badGraphs(objects)...)
	}
	if err := errors.Join(append([]error{err}, errs...)...); err != nil {
		return in, err
	}
	for _, object := range objects {
		in.add(object)
	}
	return in, nil
}

// Planner returns a planner for the input's world.
func (in *Input) Planner() *whatif.Planner { return whatif.NewPlanner(in.world) }

// On returns an input with a world and nothing to plan.
func On(world whatif.World) Input { return Input{world: world} }

// World returns the world before the plan.
func (in *Input) World() whatif.World { return in.world }

// Deployments returns the deployments to plan.
func (in *Input) Deployments() []*nvidiav1beta1.DynamoGraphDeployment {
	list := make([]*nvidiav1beta1.DynamoGraphDeployment, 0, len(in.plan))
	for _, w := range in.plan {
		list = append(list, w.dgd)
	}
	return list
}

// base returns the world without the files: the cluster, or an empty world.
func (o *options) base(ctx context.Context) (world whatif.World, namespace string, err error) {
	if !o.cluster {
		namespace = metav1.NamespaceDefault
		if o.Config.Namespace != nil && *o.Config.Namespace != "" {
			namespace = *o.Config.Namespace
		}
		return whatif.World{Ignored: o.ignored, Allocator: allocator.New()}, namespace, nil
	}
	client, namespace, err := cli.NewClient(o.Config)
	if err != nil {
		return world, "", err
	}
	snapshot, err := live.Read(ctx, client)
	if err != nil {
		return world, "", err
	}
	if o.operator, err = live.ReadHeartbeat(ctx, client); err != nil {
		return world, "", err
	}
	if err := snapshot.Complete(); err != nil {
		return world, "", err
	}
	if len(snapshot.Denied) > 0 {
		fmt.Fprintf(o.ErrOut, "Warning: you may not %s in the whole cluster: planned without\n", snapshot.Lacking())
	}
	if len(o.ignored) > 0 {
		snapshot.Ignored = o.ignored
	}
	return snapshot.World, namespace, nil
}

func namespaced(object any) bool {
	switch object.(type) {
	case *corev1.Node, *grovev1alpha1.ClusterTopology, *topologybinding.Binding, *schedulingv1.PriorityClass, *nodev1.RuntimeClass,
		*resourcev1.DeviceClass, *corev1.Namespace, *corev1.PersistentVolume, *storagev1.StorageClass, *storagev1.CSINode, *storagev1.CSIDriver,
		*resourcev1.ResourceSlice, *resourcev1.DeviceTaintRule:
		return false
	}
	return true
}

// identity identifies an object of the input. Two objects of the files must not have the same identity.
type identity struct {
	kind string
	types.NamespacedName
}

func identityOf(object files.Object) identity {
	return identity{object.GetObjectKind().GroupVersionKind().Kind, types.NamespacedName{Namespace: object.GetNamespace(),
		Name: object.GetName()}}
}

// String returns "Node a-1" or "Pod team-a/p-0".
func (i identity) String() string {
	if i.Namespace == "" {
		return i.kind + " " + i.Name
	}
	return i.kind + " " + i.NamespacedName.String()
}

func duplicates(objects []files.Object) []error {
	var errs []error
	first := map[identity]files.Source{}
	for _, object := range objects {
		id := identityOf(object)
		if before, taken := first[id]; taken {
			errs = append(errs, object.Source.At(id.String(), "", fmt.Sprintf("is there already, at %s; names must be unique", before)))
			continue
		}
		first[id] = object.Source
	}
	return errs
}

func badTopologies(objects []files.Object) []error {
	var errs []error
	for _, object := range objects {
		switch o := object.Object.(type) {
		case *grovev1alpha1.ClusterTopology:
			for _, e := range validation.Topology(o).In("") {
				errs = append(errs, object.Source.At(identityOf(object).String(), e.Field, e.ErrorBody()))
			}
		case *topologybinding.Binding:
			if _, err := topologybinding.Read(o); err != nil {
				errs = append(errs, object.Source.At(identityOf(object).String(), "", err.Error()))
			}
		}
	}
	return errs
}

// badGraphs returns the validation errors of deployments. It validates the deployments without their topology.
func badGraphs(objects []files.Object) []error {
	var errs []error
	for _, object := range objects {
		dgd, ok := object.Object.(*nvidiav1beta1.DynamoGraphDeployment)
		if !ok {
			continue
		}
		w := wanted{dgd, &object.Source, object.Version}
		for _, e := range validation.GraphCreate(validation.FromHub(dgd)) {
			errs = append(errs, w.at(e.Field, field.Body{Error: e}))
		}
	}
	return errs
}

// add adds an object of a file to the world, in place of an object of the same name. It adds a deployment to the deployments to plan.
func (in *Input) add(object files.Object) {
	switch o := object.Object.(type) {
	case *corev1.Node:
		in.world.Nodes = replaced(in.world.Nodes, o)
	case *corev1.Pod:
		in.world.Pods = replaced(in.world.Pods, o)
	case *schedulingv1.PriorityClass:
		in.world.Priorities = replaced(in.world.Priorities, o)
	case *nodev1.RuntimeClass:
		in.world.Runtimes = replaced(in.world.Runtimes, o)
	case *corev1.LimitRange:
		in.world.Limits = replaced(in.world.Limits, o)
	case *resourcev1.DeviceClass:
		in.world.Devices = replaced(in.world.Devices, o)
	case *corev1.Namespace:
		in.world.Namespaces = replaced(in.world.Namespaces, o)
	case *nvlink.ComputeDomain:
		in.world.ComputeDomains = replaced(in.world.ComputeDomains, o)
	case *grovev1alpha1.ClusterTopology:
		in.world.Topologies = replaced(in.world.Topologies, o)
	case *topologybinding.Binding:
		in.world.Topologies = slices.DeleteFunc(slices.Clone(in.world.Topologies), func(ct *grovev1alpha1.ClusterTopology) bool {
			return ct.Name == o.Name && ct.FromBinding()
		})
		in.world.Topologies = topologybinding.Merge(in.world.Topologies, []*topologybinding.Binding{o})
	case *nvidiav1beta1.DynamoGraphDeployment:
		in.plan = append(in.plan, wanted{o, &object.Source, object.Version})
	default:
		addVolume(&in.world.Volumes, o)
		addDevices(&in.world.Claims, o)
	}
}

func replaced[T metav1.Object](list []T, object T) []T {
	i := slices.IndexFunc(list, func(o T) bool { return o.GetName() == object.GetName() && o.GetNamespace() == object.GetNamespace() })
	if i < 0 {
		return append(list, object)
	}
	list[i] = object
	return list
}

// addNamed adds to the deployments to plan those deployments of the cluster that the arguments name.
func (in *Input) addNamed(args []string, namespace string) error {
	asked, err := cli.GraphNames(args)
	if err != nil {
		return err
	}
	for _, name := range asked {
		dgd := in.world.Graph(types.NamespacedName{Namespace: namespace, Name: name})
		if dgd == nil {
			var all []types.NamespacedName
			for _, other := range in.world.Graphs {
				all = append(all, types.NamespacedName{Namespace: other.Namespace, Name: other.Name})
			}
			return cli.GraphNotFound(types.NamespacedName{Namespace: namespace, Name: name}, all)
		}
		in.plan = append(in.plan, wanted{dgd: dgd})
	}
	return nil
}

// check refuses an input that cannot be planned.
func (in *Input) check(cluster bool) error {
	switch {
	case len(in.plan) == 0:
		return errors.New("nothing to plan: there is no DynamoGraphDeployment in the files")
	case len(in.world.Nodes) == 0 && cluster:
		return errors.New("the cluster has no nodes")
	case len(in.world.Nodes) == 0:
		return errors.New("there is no Node in the files: add the output of kubectl get nodes -o yaml, or take those of the cluster with " +
			"--cluster")
	}
	return nil
}
