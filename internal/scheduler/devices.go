// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"fmt"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/trellis-k8s/trellis/internal/topology"
)

// +kubebuilder:rbac:groups=resource.k8s.io,resources=deviceclasses,verbs=list;watch

const (
	// devicesEvery is how often the cluster is asked whether it serves DeviceClasses, until it does.
	devicesEvery = 10 * time.Second
	// devicesWithin bounds the wait for the first list of them. Without the right to read them the loop works as in a cluster without any.
	devicesWithin = 10 * time.Second
)

// devices follows the DeviceClasses.
type devices struct {
	cache  cache.Cache
	reader client.Reader
	// mapper knows what the API server serves; nil: it is not looked for.
	mapper meta.RESTMapper
	clock  clock.Clock
	// serve takes in the resources that DeviceClasses serve.
	serve func(resources []string)
}

// watch follows the DeviceClasses: a resource that one serves does not keep pods off nodes that do not offer it. Where the API server does
// not serve them, it may do so later.
func (d *devices) watch(ctx context.Context) error {
	served, err := d.served()
	if err != nil {
		return err
	}
	if served {
		return d.follow(ctx)
	}
	go d.await(ctx)
	return nil
}

// served asks the API server for the version that has the names of resources.
func (d *devices) served() (bool, error) {
	if d.mapper == nil {
		return false, nil
	}
	kind := resourcev1.SchemeGroupVersion.WithKind("DeviceClass")
	_, err := d.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if meta.IsNoMatchError(err) {
		return false, nil
	}
	return err == nil, err
}

func (d *devices) await(ctx context.Context) {
	for d.mapper != nil {
		timer := d.clock.NewTimer(devicesEvery)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C():
		}
		served, err := d.served()
		if served {
			if err = d.follow(ctx); err == nil {
				return
			}
		}
		if err != nil {
			log.FromContext(ctx).Error(err, "looking for DeviceClasses; it is tried again")
		}
	}
}

// follow returns once the first list has been delivered, or did not come in time.
func (d *devices) follow(ctx context.Context) error {
	informer, err := d.cache.GetInformer(ctx, &resourcev1.DeviceClass{}, cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("watching DeviceClasses: %w", err)
	}
	changed := func(any) { d.changed(ctx) }
	registration, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: changed, UpdateFunc: func(_, now any) { changed(now) }, DeleteFunc: changed,
	})
	if err != nil {
		return fmt.Errorf("watching DeviceClasses: %w", err)
	}
	first, enough := context.WithTimeout(ctx, devicesWithin)
	defer enough()
	if !toolscache.WaitForCacheSync(first.Done(), registration.HasSynced) && ctx.Err() == nil {
		log.FromContext(ctx).Info("DeviceClasses cannot be read yet; resources that only they serve count as absent")
	}
	return nil
}

// changed counts afresh. A waiting graph may have capacity by now.
func (d *devices) changed(ctx context.Context) {
	list := &resourcev1.DeviceClassList{}
	if err := d.reader.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		log.FromContext(ctx).Error(err, "reading DeviceClasses from the cache")
		return
	}
	classes := make([]*resourcev1.DeviceClass, len(list.Items))
	for i := range list.Items {
		classes[i] = &list.Items[i]
	}
	d.serve(topology.ServedBy(classes))
}
