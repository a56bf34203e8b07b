// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package named caches single objects by name, so that the operator needs only the right to read these objects.
package named

import (
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/fields"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Cache returns a cache for the one object with the type, namespace and name of the given object. The manager must run the cache. A cache
// has one selector per kind, so two objects of a kind need two caches. The cache removes the schemas of CustomResourceDefinitions, which
// take hundreds of kilobytes.
func Cache(mgr ctrl.Manager, object client.Object) (cache.Cache, error) {
	by := cache.ByObject{Field: fields.OneTermEqualSelector("metadata.name", object.GetName()), Transform: withoutSchemas}
	if namespace := object.GetNamespace(); namespace != "" {
		by.Namespaces = map[string]cache.Config{namespace: {}}
	}
	opened, err := cache.New(mgr.GetConfig(), cache.Options{
		Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(), HTTPClient: mgr.GetHTTPClient(), ByObject: map[client.Object]cache.ByObject{
			object: by},
	})
	if err != nil {
		return nil, fmt.Errorf("preparing to watch %T %s: %w", object, object.GetName(), err)
	}
	return opened, nil
}

func withoutSchemas(object any) (any, error) {
	if crd, ok := object.(*apiextensionsv1.CustomResourceDefinition); ok {
		crd.ManagedFields, crd.Spec.Versions = nil, nil
	}
	return object, nil
}
