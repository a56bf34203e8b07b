// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// handle passes an object's old state (nil for a new object) and new state to set, and the last state of a deleted object to gone. When an
// object is deleted and created again while the watch is interrupted, the informer reports one update from the old object to the new
// object. In this case, handle calls both functions.
func handle[T client.Object](set func(old, now T), gone func(T)) toolscache.ResourceEventHandler {
	var none T
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { set(none, obj.(T)) },
		UpdateFunc: func(before, obj any) {
			old, now := before.(T), obj.(T)
			if old.GetUID() != now.GetUID() {
				gone(old)
				old = none
			}
			set(old, now)
		},
		DeleteFunc: func(obj any) {
			if tombstone, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
				obj = tombstone.Obj
			}
			if object, ok := obj.(T); ok {
				gone(object)
			}
		},
	}
}
