// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"reflect"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// ownWritesWithin bounds the time for which a read waits until the cache shows the client's own writes.
const ownWritesWithin = 30 * time.Second

// patient is a client whose reads wait, within a time limit, until the cache shows the client's own writes.
//
// controller-runtime waits until an event of the kind has a resourceVersion that is at least as new as the resourceVersion of the write.
// But a watch may break and start again with a list, for example because the API server restarts. If an object was written and then deleted
// while the watch was broken, there is no such event: the list does not contain the object, and the deletion event has the object's last
// known state. Every read of the kind would then wait until another object of the kind changes, which may never happen in a quiet cluster.
// After the time limit, a read therefore uses the cache's current content. At worst, the operator then repeats a write, which all its
// writes tolerate.
//
// patient tracks deletions itself; see [ownDeletes].
type patient struct {
	client.Client
	wait    time.Duration
	deletes *ownDeletes
}

// Delete implements client.Writer.
func (p patient) Delete(ctx context.Context, obj client.Object, opts ...client.DeleteOption) error {
	if !followed(obj) {
		return p.Client.Delete(ctx, obj, opts...)
	}
	err := p.Client.Delete(ctx, obj, append(opts[:len(opts):len(opts)], client.DisableReadYourWritesConsistency)...)
	if err == nil {
		p.deletes.add(obj, opts)
	}
	return err
}

// Get implements client.Reader.
func (p patient) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	return p.read(ctx, func(ctx context.Context) error {
		kind := reflect.TypeOf(obj)
		err := p.deletes.shown(ctx, p.Client, func(one deleted) bool { return one.kind == kind && one.name == key })
		if err != nil {
			return err
		}
		return p.Client.Get(ctx, key, obj, opts...)
	}, func() error {
		return p.Client.Get(ctx, key, obj, append(opts[:len(opts):len(opts)], client.DisableReadYourWritesConsistency)...)
	})
}

// List implements client.Reader.
func (p patient) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	return p.read(ctx, func(ctx context.Context) error {
		kind := itemsOf(list)
		err := p.deletes.shown(ctx, p.Client, func(one deleted) bool { return one.kind == kind })
		if err != nil {
			return err
		}
		return p.Client.List(ctx, list, opts...)
	}, func() error {
		return p.Client.List(ctx, list, append(opts[:len(opts):len(opts)], client.DisableReadYourWritesConsistency)...)
	})
}

func (p patient) read(ctx context.Context, ownWrites func(context.Context) error, asIs func() error) error {
	short, cancel := context.WithTimeout(ctx, p.wait)
	defer cancel()
	err := ownWrites(short)
	if err == nil || short.Err() == nil || ctx.Err() != nil {
		return err
	}
	log.FromContext(ctx).Info("the cache does not show what was written; reading it as it is", "waited", p.wait.String(), "reason",
		err.Error())
	return asIs()
}

// itemsOf returns the type of a list's objects, as a pointer type; nil if the list has no field Items.
func itemsOf(list client.ObjectList) reflect.Type {
	items, has := reflect.TypeOf(list).Elem().FieldByName("Items")
	if !has {
		return nil
	}
	return reflect.PointerTo(items.Type.Elem())
}
