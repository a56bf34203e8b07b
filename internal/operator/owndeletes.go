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

// ownDeletes holds the objects that a client has deleted but that its cache may still show.
//
// controller-runtime waits for the event of each deletion. In two cases there is no deletion event: an object was created and deleted while
// its watch was interrupted, or the object was recreated under the same name meanwhile, which the watch reports as an update. Every list of
// this kind would then wait forever. ownDeletes reads the object from the cache instead.
type ownDeletes struct {
	mu      sync.Mutex
	pending map[deleted]struct{}
}

// deleted identifies a deleted object.
type deleted struct {
	kind reflect.Type
	name types.NamespacedName
	uid  types.UID
}

// looksEvery is the interval at which ownDeletes reads the cache.
const looksEvery = 5 * time.Millisecond

// add records a deleted object, with the UID in the deletion's preconditions or otherwise the object's own UID. It ignores a deletion
// without a UID.
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

// of lists the deletions that affect a read.
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

// shown waits until the cache shows all deletions that affect a read: the object is gone or being deleted, or another object has its name.
// It waits for each deletion only once, so a later read does not wait again.
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

// followed reports whether ownDeletes tracks deletions of the object's type: all types except Unstructured and PartialObjectMetadata.
func followed(obj client.Object) bool {
	switch obj.(type) {
	case *unstructured.Unstructured, *metav1.PartialObjectMetadata:
		return false
	}
	return true
}
