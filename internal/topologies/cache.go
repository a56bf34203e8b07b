// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package topologies

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
)

// Cache is a cache that reads Bindings as ClusterTopologies, in addition to the ClusterTopologies. It omits a Binding with the name of a
// ClusterTopology. It delivers the events of all Bindings as events of ClusterTopologies, even if a ClusterTopology has the same name.
type Cache struct {
	cache.Cache
	bindings *bindings
}

var _ cache.Cache = &Cache{}

// NewCache adds Bindings to a cache that was created with the same configuration and options. every is the interval at which the cache
// checks whether the cluster serves Bindings.
func NewCache(of cache.Cache, config *rest.Config, o cache.Options, every time.Duration) (*Cache, error) {
	b, err := newBindings(config, o, every)
	if err != nil {
		return nil, err
	}
	return &Cache{Cache: of, bindings: b}, nil
}

// Binding returns the Binding with the given name as a ClusterTopology, whether or not a ClusterTopology has this name. It returns nil if
// there is no Binding, or if Trellis wrote it. why is the reason why the Binding cannot be read as a ClusterTopology; only the metadata is
// returned in this case.
func (c *Cache) Binding(name string) (as *grovev1alpha1.ClusterTopology, why string) {
	known, is := c.bindings.get(name)
	if !is {
		return nil, ""
	}
	return known.topology.DeepCopy(), known.problem
}

// Get implements client.Reader.
func (c *Cache) Get(ctx context.Context, key client.ObjectKey, object client.Object, opts ...client.GetOption) error {
	err := c.Cache.Get(ctx, key, object, opts...)
	into, is := object.(*grovev1alpha1.ClusterTopology)
	if !is || !apierrors.IsNotFound(err) {
		return err
	}
	known, is := c.bindings.get(key.Name)
	if !is || known.problem != "" {
		return err
	}
	known.topology.DeepCopyInto(into)
	return nil
}

// List implements client.Reader. It does not apply selectors to Bindings, because no caller lists topologies with selectors.
func (c *Cache) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if err := c.Cache.List(ctx, list, opts...); err != nil {
		return err
	}
	if into, is := list.(*grovev1alpha1.ClusterTopologyList); is {
		c.bindings.addTo(into)
	}
	return nil
}

// GetInformer implements cache.Informers.
func (c *Cache) GetInformer(ctx context.Context, object client.Object, opts ...cache.InformerGetOption) (cache.Informer, error) {
	of, err := c.Cache.GetInformer(ctx, object, opts...)
	if _, is := object.(*grovev1alpha1.ClusterTopology); !is || err != nil {
		return of, err
	}
	return &informer{Informer: of, bindings: c.bindings}, nil
}

// Start implements cache.Informers.
func (c *Cache) Start(ctx context.Context) error {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		c.bindings.follow(ctx)
	}()
	err := c.Cache.Start(ctx)
	<-ended
	return err
}

// WaitForCacheSync implements cache.Informers. It also waits for the first list of Bindings, if they are served, so that no deployment is
// reported to lack its topology after a start.
func (c *Cache) WaitForCacheSync(ctx context.Context) bool {
	if !c.Cache.WaitForCacheSync(ctx) {
		return false
	}
	select {
	case <-c.bindings.looked:
		return true
	case <-ctx.Done():
		return false
	}
}

// informer delivers the events of Bindings along with the events of ClusterTopologies.
type informer struct {
	cache.Informer
	bindings *bindings
}

// AddEventHandler implements cache.Informer.
func (i *informer) AddEventHandler(h toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	of, err := i.Informer.AddEventHandler(h)
	return i.add(of, h, err)
}

// AddEventHandlerWithResyncPeriod implements cache.Informer.
func (i *informer) AddEventHandlerWithResyncPeriod(h toolscache.ResourceEventHandler, resync time.Duration) (
	toolscache.ResourceEventHandlerRegistration, error) {
	of, err := i.Informer.AddEventHandlerWithResyncPeriod(h, resync)
	return i.add(of, h, err)
}

// AddEventHandlerWithOptions implements cache.Informer.
func (i *informer) AddEventHandlerWithOptions(h toolscache.ResourceEventHandler, o toolscache.HandlerOptions) (
	toolscache.ResourceEventHandlerRegistration, error) {
	of, err := i.Informer.AddEventHandlerWithOptions(h, o)
	return i.add(of, h, err)
}

func (i *informer) add(of toolscache.ResourceEventHandlerRegistration, h toolscache.ResourceEventHandler, err error) (
	toolscache.ResourceEventHandlerRegistration, error) {
	if err == nil {
		i.bindings.addHandler(of, h)
	}
	return of, err
}

// RemoveEventHandler implements cache.Informer.
func (i *informer) RemoveEventHandler(of toolscache.ResourceEventHandlerRegistration) error {
	i.bindings.removeHandler(of)
	return i.Informer.RemoveEventHandler(of)
}
