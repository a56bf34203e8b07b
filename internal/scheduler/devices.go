// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"fmt"
	"slices"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/trellis-k8s/trellis/internal/strip"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// +kubebuilder:rbac:groups=resource.k8s.io,resources=deviceclasses;devicetaintrules;resourceclaims;resourceclaimtemplates;resourceslices,verbs=list;watch

const (
	// devicesEvery is the interval at which the loop checks whether the cluster serves DeviceClasses and DeviceTaintRules, until it does.
	devicesEvery = 10 * time.Second
	// devicesWithin limits the wait for the first lists of devices. Without permission to read devices, the loop works as in a cluster
	// without devices.
	devicesWithin = 10 * time.Second
)

// devices watches the devices of the cluster, their classes, and the claims of devices.
type devices struct {
	cache  cache.Cache
	reader client.Reader
	// mapper has the kinds that the API server serves; nil: devices are not watched.
	mapper meta.RESTMapper
	clock  clock.Clock
	// serve is called with the resources that DeviceClasses serve. set is called with each new or changed object, and gone with each
	// deleted object.
	serve     func(resources []string)
	set, gone func(client.Object)
	// known is called with a function that reports whether the caches of all watched kinds are filled.
	known func(func() bool)
}

// watch watches devices for two reasons. First, claims allocate devices. Second, a pod that requests a resource of a DeviceClass also fits
// nodes that lack this resource. If the API server does not serve the kinds yet, a goroutine waits until it does.
func (d *devices) watch(ctx context.Context) error {
	served, err := d.served("DeviceClass")
	if err != nil {
		return err
	}
	if served {
		return d.follow(ctx)
	}
	go d.await(ctx, "DeviceClass", d.follow)
	return nil
}

// served reports whether the API server serves a kind in resource.k8s.io/v1, the version in which DeviceClasses name resources.
func (d *devices) served(name string) (bool, error) {
	if d.mapper == nil {
		return false, nil
	}
	kind := resourcev1.SchemeGroupVersion.WithKind(name)
	_, err := d.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if meta.IsNoMatchError(err) {
		return false, nil
	}
	return err == nil, err
}

// await waits until the API server serves a kind, and then calls follow until follow succeeds.
func (d *devices) await(ctx context.Context, kind string, follow func(context.Context) error) {
	for d.mapper != nil {
		timer := d.clock.NewTimer(devicesEvery)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C():
		}
		served, err := d.served(kind)
		if served {
			if err = follow(ctx); err == nil {
				return
			}
		}
		if err != nil {
			log.FromContext(ctx).Error(err, "looking for a kind of devices; it is tried again", "kind", kind)
		}
	}
}

// follow watches the kinds of devices and claims. It returns once the first lists have been delivered, or devicesWithin has passed.
func (d *devices) follow(ctx context.Context) error {
	kinds := []client.Object{&resourcev1.DeviceClass{}, &resourcev1.ResourceSlice{}, &resourcev1.ResourceClaimTemplate{},
		&resourcev1.ResourceClaim{}}
	if served, err := d.served("DeviceTaintRule"); err != nil {
		return err
	} else if served { // since Kubernetes 1.37
		kinds = append(kinds, &resourcev1.DeviceTaintRule{})
	} else {
		go d.await(ctx, "DeviceTaintRule", func(ctx context.Context) error {
			_, err := d.followKind(ctx, &resourcev1.DeviceTaintRule{})
			return err
		})
	}
	var synced []toolscache.InformerSynced
	for _, kind := range kinds {
		has, err := d.followKind(ctx, kind)
		if err != nil {
			return fmt.Errorf("watching %T: %w", kind, err)
		}
		synced = append(synced, has)
	}
	d.known(func() bool {
		return !slices.ContainsFunc(synced, func(has toolscache.InformerSynced) bool { return !has() })
	})
	first, enough := context.WithTimeout(ctx, devicesWithin)
	defer enough()
	if !toolscache.WaitForCacheSync(first.Done(), synced...) && ctx.Err() == nil {
		log.FromContext(ctx).Info("devices and their claims cannot be read yet; claims are not counted, and resources that only DeviceClasses " +
			"serve count as absent")
	}
	return nil
}

func (d *devices) followKind(ctx context.Context, kind client.Object) (toolscache.InformerSynced, error) {
	informer, err := d.cache.GetInformer(ctx, kind, cache.BlockUntilSynced(false))
	if err != nil {
		return nil, err
	}
	ofClass := func(o client.Object) {
		if _, is := o.(*resourcev1.DeviceClass); is {
			d.classesChanged(ctx)
		}
	}
	registration, err := informer.AddEventHandler(handle(
		func(_, now client.Object) {
			d.set(now)
			ofClass(now)
		},
		func(gone client.Object) {
			d.gone(gone)
			ofClass(gone)
		},
	))
	if err != nil {
		return nil, err
	}
	return registration.HasSynced, nil
}

// classesChanged calls serve with the resources that DeviceClasses currently serve. If they have changed, serve wakes the waiting graphs.
func (d *devices) classesChanged(ctx context.Context) {
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

// StripClaim is a cache transform. It keeps the request of a claim template, and of a claim without an allocation. Of an allocated claim,
// it keeps the devices and the nodes that can use them. It keeps the controller reference of every claim. It passes other objects to
// [strip.Object].
func StripClaim(obj any) (any, error) {
	if t, is := obj.(*resourcev1.ResourceClaimTemplate); is {
		t.ManagedFields, t.Annotations, t.Labels, t.Finalizers, t.OwnerReferences = nil, nil, nil, nil, nil
		t.Spec.ObjectMeta, t.Spec.Spec.Devices.Config = metav1.ObjectMeta{}, nil
		return t, nil
	}
	c, is := obj.(*resourcev1.ResourceClaim)
	if !is {
		return strip.Object(obj)
	}
	c.ManagedFields = nil
	controller := metav1.GetControllerOf(c)
	if c.OwnerReferences = nil; controller != nil {
		c.OwnerReferences = []metav1.OwnerReference{*controller}
	}
	c.Annotations, c.Labels, c.Finalizers, c.Status.ReservedFor, c.Status.Devices, c.Spec.Devices.Config = nil, nil, nil, nil, nil, nil
	a := c.Status.Allocation
	if a == nil {
		return c, nil
	}
	c.Spec = resourcev1.ResourceClaimSpec{}
	a.Devices.Config = nil
	for i := range a.Devices.Results {
		r := &a.Devices.Results[i]
		a.Devices.Results[i] = resourcev1.DeviceRequestAllocationResult{
			Driver: r.Driver, Pool: r.Pool, Device: r.Device, AdminAccess: r.AdminAccess, ShareID: r.ShareID, ConsumedCapacity: r.ConsumedCapacity,
		}
	}
	return c, nil
}
