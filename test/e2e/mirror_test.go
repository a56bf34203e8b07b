// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// mirror passes every change of a kind's objects to see, in order. It outlives restarts of the API server: what changed meanwhile is passed on
// as one change of each object.
type mirror[T client.Object] struct {
	c       client.WithWatch
	list    client.ObjectList
	options []client.ListOption
	see     func(watch.EventType, T)
	known   map[types.UID]T
}

// between two attempts to reach the API server.
const betweenAttempts = 200 * time.Millisecond

// start passes on what is there and then, in the background, every change, until stop is called; stop returns when see is not called any more.
func (m *mirror[T]) start() (stop func(), err error) {
	ctx, cancel := context.WithCancel(context.Background())
	m.known = map[types.UID]T{}
	version, err := m.look(ctx)
	if err != nil {
		cancel()
		return nil, err
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			m.watch(ctx, version)
			for version, err = m.look(ctx); err != nil && ctx.Err() == nil; version, err = m.look(ctx) {
				pause(ctx, betweenAttempts)
			}
		}
	}()
	return func() { cancel(); <-done }, nil
}

// look lists, passes on what differs from what is known, and returns the version to watch from.
func (m *mirror[T]) look(ctx context.Context) (string, error) {
	fresh, _ := m.list.DeepCopyObject().(client.ObjectList)
	if err := m.c.List(ctx, fresh, m.options...); err != nil {
		return "", err
	}
	found := map[types.UID]T{}
	err := meta.EachListItem(fresh, func(o runtime.Object) error {
		if object, ok := o.(T); ok {
			found[object.GetUID()] = object
		}
		return nil
	})
	for uid, o := range m.known {
		if _, there := found[uid]; !there {
			delete(m.known, uid)
			m.see(watch.Deleted, o)
		}
	}
	for uid, o := range found {
		if before, known := m.known[uid]; !known || before.GetResourceVersion() != o.GetResourceVersion() {
			m.known[uid] = o
			m.see(watch.Modified, o)
		}
	}
	return fresh.GetResourceVersion(), err
}

// watch passes changes on until the watch ends.
func (m *mirror[T]) watch(ctx context.Context, version string) {
	fresh, _ := m.list.DeepCopyObject().(client.ObjectList)
	watcher, err := m.c.Watch(ctx, fresh, append(m.options[:len(m.options):len(m.options)], &client.ListOptions{Raw: fromVersion(version)})...)
	if err != nil {
		pause(ctx, betweenAttempts)
		return
	}
	defer watcher.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case e, open := <-watcher.ResultChan():
			o, ok := e.Object.(T)
			if !open || !ok {
				return
			}
			if e.Type == watch.Deleted {
				delete(m.known, o.GetUID())
			} else {
				m.known[o.GetUID()] = o
			}
			m.see(e.Type, o)
		}
	}
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
