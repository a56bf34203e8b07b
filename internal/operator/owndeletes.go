// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"fmt"
	"reflect"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ownDeletes are the objects that a client has deleted and that its cache may still show as if it had not.
//
// controller-runtime waits for the event of each deletion. There is none of an object that was created and deleted while its watch was
// cut, nor of one that was recreated under its name meanwhile, which is reported as an update. Every list of the kind would wait for it
// forever. Here the cache is asked for the object instead.
type ownDeletes struct {
	mu      sync.Mutex
	pending map[deleted]struct{}
}

// deleted is one object that was deleted.
type deleted struct {
	kind reflect.Type
	name types.NamespacedName
	uid  types.UID
}

// looksEvery is the time between two looks at the cache.
const looksEvery = 5 * time.Millisecond

// add remembers an object that was deleted, by its own UID or the one that the deletion was limited to. Without either it is not known
// which one was.
func (d *ownDeletes) add(obj client.Object, opts []client.DeleteOption) {
	uid := obj.GetUID()
	if p := (&client.DeleteOptions{}).ApplyOptions(opts).Preconditions; p != nil && p.UID != nil {
		uid = *p.UID
	}
	if uid == "" {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.pending == nil {
		d.pending = map[deleted]struct{}{}
	}
	d.pending[deleted{reflect.TypeOf(obj), client.ObjectKeyFromObject(obj), uid}] = struct{}{}
}

func (d *ownDeletes) remove(all ...deleted) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, one := range all {
		delete(d.pending, one)
	}
}

// of lists what was deleted and a read concerns.
func (d *ownDeletes) of(concerns func(deleted) bool) (out []deleted) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for one := range d.pending {
		if concerns(one) {
			out = append(out, one)
		}
	}
	return out
}

// shown waits until the cache shows the deletions that a read concerns: the object is gone, another one has its name, or it is being
// deleted. What the cache did not show in time is not waited for again.
func (d *ownDeletes) shown(ctx context.Context, cached client.Reader, concerns func(deleted) bool) error {
	waiting := d.of(concerns)
	for i, one := range waiting {
		for {
			shown, err := one.shown(ctx, cached)
			if err != nil {
				return err
			}
			if shown {
				d.remove(one)
				break
			}
			select {
			case <-ctx.Done():
				d.remove(waiting[i:]...)
				return fmt.Errorf("the deletion of %s: %w", one.name, ctx.Err())
			case <-time.After(looksEvery):
			}
		}
	}
	return nil
}

func (one deleted) shown(ctx context.Context, cached client.Reader) (bool, error) {
	obj := reflect.New(one.kind.Elem()).Interface().(client.Object)
	err := cached.Get(ctx, one.name, obj, client.DisableReadYourWritesConsistency)
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	return err == nil && (obj.GetUID() != one.uid || obj.GetDeletionTimestamp() != nil), err
}

// followed reports whether the deletions of a kind of objects are followed here: of those that have a type of their own, which are read
// from the cache.
func followed(obj client.Object) bool {
	switch obj.(type) {
	case *unstructured.Unstructured, *metav1.PartialObjectMetadata:
		return false
	}
	return true
}
