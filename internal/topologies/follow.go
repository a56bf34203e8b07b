// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package topologies

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/trellis-k8s/trellis/internal/topologybinding"
)

const (
	// firstEvery is the interval of the checks until the cluster has first answered whether it serves Bindings.
	firstEvery = time.Second
	// syncTimeout bounds the wait for the first answer, and for the first list of Bindings.
	syncTimeout = 30 * time.Second
)

// +kubebuilder:rbac:groups=grove.io,resources=clustertopologybindings,verbs=get;list;watch

// running is a running cache of Bindings. It is separate from the operator's cache, because a cache fails entirely when the watch of one
// kind fails, for example because the kind is no longer served.
type running struct {
	cancel context.CancelFunc
	ended  sync.WaitGroup
}

func (r *running) stop() {
	r.cancel()
	r.ended.Wait()
}

// follow reads Bindings while they are served, until ctx ends.
func (b *bindings) follow(ctx context.Context) {
	ctx = log.IntoContext(ctx, log.FromContext(ctx).WithName("bindings"))
	forbidden, every, within := false, min(firstEvery, b.every), time.Now().Add(syncTimeout)
	first := sync.OnceFunc(func() { close(b.looked) })
	defer first()
	for {
		err := b.look(ctx)
		if err == nil || apierrors.IsForbidden(err) || time.Now().After(within) {
			first()
			every = b.every
		}
		if err != nil && ctx.Err() == nil && (!forbidden || !apierrors.IsForbidden(err)) {
			log.FromContext(ctx).Error(err, "reading ClusterTopologyBindings; it is tried again")
		}
		forbidden = apierrors.IsForbidden(err)
		timer := time.NewTimer(every)
		select {
		case <-ctx.Done():
			timer.Stop()
			if b.running != nil {
				b.running.stop()
			}
			return
		case <-timer.C:
		}
	}
}

// look starts the watch of Bindings when the cluster begins to serve them and the operator may read them. It stops the watch when the
// cluster no longer serves them, or when the operator may no longer read them.
func (b *bindings) look(ctx context.Context) error {
	err := b.served(ctx)
	gone := apierrors.IsNotFound(err) || meta.IsNoMatchError(err)
	switch {
	case gone || apierrors.IsForbidden(err):
		if b.running != nil {
			log.FromContext(ctx).Info("ClusterTopologyBindings can no longer be read")
			b.running.stop()
			b.running = nil
			b.clear()
		}
		if gone {
			return nil
		}
		return err
	case err != nil || b.running != nil:
		return err
	}
	b.running, err = b.start(ctx)
	if err == nil {
		log.FromContext(ctx).Info("ClusterTopologyBindings are read as ClusterTopologies")
	}
	return err
}

// served lists at most one Binding. It returns an error if Bindings are not served or may not be read.
func (b *bindings) served(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, syncTimeout)
	defer cancel()
	return b.live.List(ctx, &topologybinding.BindingList{}, client.Limit(1))
}

// start starts the cache of Bindings and returns after the cache has processed its first list.
func (b *bindings) start(ctx context.Context) (*running, error) {
	own, err := b.open()
	if err != nil {
		return nil, err
	}
	informer, err := own.GetInformer(ctx, &topologybinding.Binding{}, cache.BlockUntilSynced(false))
	if err != nil {
		return nil, fmt.Errorf("watching: %w", err)
	}
	registration, err := informer.AddEventHandler(b)
	if err != nil {
		return nil, fmt.Errorf("watching: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	r := &running{cancel: cancel}
	r.ended.Go(func() {
		if err := own.Start(ctx); err != nil {
			log.FromContext(ctx).Error(err, "watching ClusterTopologyBindings")
		}
	})
	first, enough := context.WithTimeout(ctx, syncTimeout)
	defer enough()
	if !toolscache.WaitForCacheSync(first.Done(), registration.HasSynced) {
		r.stop()
		b.clear()
		return nil, errors.New("the first list was not received")
	}
	return r, nil
}
