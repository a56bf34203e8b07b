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

// watchDevices follows the DeviceClasses: a resource that one serves does not keep pods off nodes that do not offer it. Where the API server does
// not serve them, it may do so later.
func (s *Scheduler) watchDevices(ctx context.Context) error {
	served, err := s.devicesServed()
	if err != nil {
		return err
	}
	if served {
		return s.followDevices(ctx)
	}
	go s.awaitDevices(ctx)
	return nil
}

// devicesServed asks the API server for the version that has the names of resources.
func (s *Scheduler) devicesServed() (bool, error) {
	if s.options.Mapper == nil {
		return false, nil
	}
	kind := resourcev1.SchemeGroupVersion.WithKind("DeviceClass")
	_, err := s.options.Mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if meta.IsNoMatchError(err) {
		return false, nil
	}
	return err == nil, err
}

func (s *Scheduler) awaitDevices(ctx context.Context) {
	for s.options.Mapper != nil {
		timer := s.options.Clock.NewTimer(devicesEvery)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C():
		}
		served, err := s.devicesServed()
		if served {
			if err = s.followDevices(ctx); err == nil {
				return
			}
		}
		if err != nil {
			log.FromContext(ctx).Error(err, "looking for DeviceClasses; it is tried again")
		}
	}
}

// followDevices returns once the first list has been delivered, or did not come in time.
func (s *Scheduler) followDevices(ctx context.Context) error {
	informer, err := s.cache.GetInformer(ctx, &resourcev1.DeviceClass{}, cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("watching DeviceClasses: %w", err)
	}
	changed := func(any) { s.devicesChanged(ctx) }
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

// devicesChanged counts afresh. A waiting graph may have capacity by now.
func (s *Scheduler) devicesChanged(ctx context.Context) {
	list := &resourcev1.DeviceClassList{}
	if err := s.reader.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		log.FromContext(ctx).Error(err, "reading DeviceClasses from the cache")
		return
	}
	classes := make([]*resourcev1.DeviceClass, len(list.Items))
	for i := range list.Items {
		classes[i] = &list.Items[i]
	}
	s.mu.Lock()
	changed := s.cluster.Serve(topology.ServedBy(classes))
	s.mu.Unlock()
	if changed {
		s.queue.wakeWaiting()
	}
}
