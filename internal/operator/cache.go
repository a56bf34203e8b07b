// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"cmp"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/controller/clustertopology"
	graphcontroller "github.com/trellis-k8s/trellis/internal/controller/dynamographdeployment"
	"github.com/trellis-k8s/trellis/internal/provider"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/scheduler"
	"github.com/trellis-k8s/trellis/internal/strip"
	"github.com/trellis-k8s/trellis/internal/topologies"
)

// cacheOptions returns options that limit the cache's memory in a large cluster, regardless of the objects that tenants write. The cache
// limits the annotations of every object, and drops content that Trellis does not read. It drops managed fields, except the managed fields
// of a scaling group that another client has changed. Of other users' pods, it keeps only the fields that determine the used capacity of a
// node. If only some namespaces are managed, the cache reads namespaced objects only in these namespaces, except for pods, resource claims
// and the capacity of storage.
func cacheOptions(namespaces []string) cache.Options {
	o := cache.Options{
		DefaultTransform: strip.Object,
		ByObject: map[client.Object]cache.ByObject{
			&corev1.Node{}:                         {Transform: scheduler.StripNode},
			&corev1.Namespace{}:                    {Transform: scheduler.StripNamespace},
			&corev1.Service{}:                      {Transform: stripChild},
			&resourcev1.ResourceClaimTemplate{}:    {Transform: scheduler.StripClaim},
			&nvidiav1beta1.DynamoGraphDeployment{}: {Transform: stripDeployment},
			&trellisv1alpha1.ScalingGroup{}:        {Transform: stripGroup},
			&nvidiav1alpha1.DynamoWorkerMetadata{}: {Transform: strip.Owned},
			&corev1.PersistentVolume{}:             {Transform: scheduler.StripVolume},
			&corev1.PersistentVolumeClaim{}:        {Transform: scheduler.StripVolume},
			&apiextensionsv1.CustomResourceDefinition{}: {
				Field: fields.OneTermEqualSelector("metadata.name", graphcontroller.PoolDefinition),
			},
		},
	}
	ours := labels.SelectorFromSet(labels.Set{render.LabelManagedBy: render.ManagedBy})
	for _, object := range extras() {
		o.ByObject[object] = cache.ByObject{Label: ours, Transform: stripChild}
	}
	o.ByObject[&appsv1.ControllerRevision{}] = cache.ByObject{Label: ours} // read in full, and written only by the operator
	if len(namespaces) == 0 {
		o.ByObject[&corev1.Pod{}] = cache.ByObject{Transform: scheduler.StripPod}
		o.ByObject[&resourcev1.ResourceClaim{}] = cache.ByObject{Transform: scheduler.StripClaim}
		return o
	}
	o.DefaultNamespaces = map[string]cache.Config{}
	for _, ns := range namespaces {
		o.DefaultNamespaces[ns] = cache.Config{}
	}
	everywhere := map[string]cache.Config{cache.AllNamespaces: {}}
	o.ByObject[&corev1.Pod{}] = cache.ByObject{Namespaces: everywhere, Transform: disown(o.DefaultNamespaces)}
	// CSIStorageCapacities are in the namespaces of CSI drivers.
	o.ByObject[&storagev1.CSIStorageCapacity{}] = cache.ByObject{Namespaces: everywhere}
	o.ByObject[&resourcev1.ResourceClaim{}] = cache.ByObject{Namespaces: everywhere, Transform: scheduler.StripClaim} // all take devices
	return o
}

// extras are common kinds. The cache keeps only Trellis' own objects of these kinds.
func extras() []client.Object {
	return []client.Object{
		&corev1.ServiceAccount{}, &corev1.ConfigMap{}, &rbacv1.Role{}, &rbacv1.RoleBinding{}, &networkingv1.Ingress{},
	}
}

// disown makes the cache treat pods outside the managed namespaces as pods of other users, which count only as used capacity. A namespace
// may contain Trellis' pods from a time when it was managed. Without disown, a controller would look up their scaling group, which the
// cache does not have.
func disown(managed map[string]cache.Config) toolscache.TransformFunc {
	return func(obj any) (any, error) {
		if pod, ok := obj.(*corev1.Pod); ok {
			if _, ours := managed[pod.Namespace]; !ours {
				delete(pod.Labels, render.LabelScalingGroup)
			}
		}
		return scheduler.StripPod(obj)
	}
}

// newCache creates a cache with options for kinds that the cluster may not serve. The ClusterTopologies in this cache include Grove's
// Bindings. every is the interval at which the cache checks whether the cluster serves Bindings.
func newCache(every time.Duration) cache.NewCacheFunc {
	return func(config *rest.Config, o cache.Options) (cache.Cache, error) {
		served := o
		o.Mapper = optionalKinds{o.Mapper}
		of, err := cache.New(config, o)
		if err != nil {
			return nil, err
		}
		return topologies.NewCache(of, config, served, cmp.Or(every, provider.DefaultLookEvery))
	}
}

// bindingsOf returns the Bindings in the manager's cache.
func bindingsOf(mgr ctrl.Manager) clustertopology.Bindings {
	return mgr.GetCache().(*topologies.Cache)
}

// optionalKinds is a REST mapper that also maps namespaced kinds that the cluster does not serve, in the version that Trellis reads.
// Kubernetes serves ResourceClaims from 1.34 on, and Trellis' own CustomResourceDefinitions are checked later. Without this mapping, a
// cache with options for a missing kind could not be created. Nothing reads these kinds before the cluster serves them.
type optionalKinds struct{ meta.RESTMapper }

// optional contains the kinds of optionalKinds, with their resources.
var optional = map[schema.GroupVersionKind]string{
	resourcev1.SchemeGroupVersion.WithKind("ResourceClaim"):         "resourceclaims",
	resourcev1.SchemeGroupVersion.WithKind("ResourceClaimTemplate"): "resourceclaimtemplates",
	nvidiav1beta1.GroupVersion.WithKind("DynamoGraphDeployment"):    "dynamographdeployments",
	nvidiav1alpha1.GroupVersion.WithKind("DynamoWorkerMetadata"):    "dynamoworkermetadatas",
}

// RESTMapping implements [meta.RESTMapper].
func (m optionalKinds) RESTMapping(kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	mapping, err := m.RESTMapper.RESTMapping(kind, versions...)
	if !meta.IsNoMatchError(err) {
		return mapping, err
	}
	for of, resource := range optional {
		if of.GroupKind() == kind {
			return &meta.RESTMapping{
				Resource: of.GroupVersion().WithResource(resource), GroupVersionKind: of, Scope: meta.RESTScopeNamespace,
			}, nil
		}
	}
	return mapping, err
}
