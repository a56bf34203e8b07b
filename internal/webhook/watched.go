// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"fmt"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/fields"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// watched holds a handful of objects, each followed by its name, so that the right to read these is enough.
type watched struct {
	// changed has a signal after any of them did.
	changed chan struct{}
	// first holds one object a kind, and definitions one definition each: a cache has one selector a kind.
	first       cache.Cache
	definitions map[string]cache.Cache
}

// watch prepares to follow the Secret, the webhook configurations and the definitions.
func watch(mgr ctrl.Manager, opts CertOptions) (*watched, error) {
	secret, named := secretOf(opts), func(name string) fields.Selector { return fields.OneTermEqualSelector("metadata.name", name) }
	w := &watched{changed: make(chan struct{}, 1), definitions: map[string]cache.Cache{}}
	var err error
	w.first, err = w.open(mgr, map[client.Object]cache.ByObject{
		&corev1.Secret{}: {Namespaces: map[string]cache.Config{secret.Namespace: {FieldSelector: named(secret.Name)}}},
		&admissionregistrationv1.MutatingWebhookConfiguration{}:   {Field: named(opts.MutatingWebhookConfig)},
		&admissionregistrationv1.ValidatingWebhookConfiguration{}: {Field: named(opts.ValidatingWebhookConfig)},
	})
	if err != nil {
		return nil, err
	}
	for _, name := range opts.Definitions {
		w.definitions[name], err = w.open(mgr, map[client.Object]cache.ByObject{
			&apiextensionsv1.CustomResourceDefinition{}: {Field: named(name), Transform: withoutSchemas},
		})
		if err != nil {
			return nil, err
		}
	}
	return w, nil
}

func (w *watched) open(mgr ctrl.Manager, objects map[client.Object]cache.ByObject) (cache.Cache, error) {
	opened, err := cache.New(mgr.GetConfig(), cache.Options{Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(), HTTPClient: mgr.GetHTTPClient(), ByObject: objects})
	if err != nil {
		return nil, fmt.Errorf("preparing to watch the certificate: %w", err)
	}
	wake := func(any) {
		select {
		case w.changed <- struct{}{}:
		default: // someone will look anyway
		}
	}
	for object := range objects {
		informer, err := opened.GetInformer(context.Background(), object, cache.BlockUntilSynced(false))
		if err != nil {
			return nil, fmt.Errorf("watching %T: %w", object, err)
		}
		if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: wake, UpdateFunc: func(_, now any) { wake(now) }, DeleteFunc: wake}); err != nil {
			return nil, fmt.Errorf("watching %T: %w", object, err)
		}
	}
	return opened, nil
}

// withoutSchemas keeps of a definition what is looked at; the rest is hundreds of kilobytes.
func withoutSchemas(object any) (any, error) {
	if crd, ok := object.(*apiextensionsv1.CustomResourceDefinition); ok {
		crd.ManagedFields, crd.Spec.Versions = nil, nil
	}
	return object, nil
}

// start fills the caches and returns when each has been; ended gets what the first of them ends with.
func (w *watched) start(ctx context.Context) (ended <-chan error) {
	all := []cache.Cache{w.first}
	for _, c := range w.definitions {
		all = append(all, c)
	}
	ends := make(chan error, len(all))
	for _, c := range all {
		go func() { ends <- c.Start(ctx) }()
	}
	for _, c := range all {
		c.WaitForCacheSync(ctx)
	}
	return ends
}

// Get reads one of the watched objects.
func (w *watched) Get(ctx context.Context, key client.ObjectKey, object client.Object) error {
	if _, isDefinition := object.(*apiextensionsv1.CustomResourceDefinition); isDefinition {
		return w.definitions[key.Name].Get(ctx, key, object)
	}
	return w.first.Get(ctx, key, object)
}
