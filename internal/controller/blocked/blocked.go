// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package blocked determines when a controller retries a refused operation: at an event that may end the cause of the refusal, and at the
// latest after MaxRetry.
package blocked

import (
	"cmp"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Defaults of Retries.
const (
	minRetry  = 5 * time.Millisecond
	MaxRetry  = 30 * time.Second
	unwatched = 30 * time.Second
)

// Retries are the times after which a controller tries again without an event. A zero value means the default. Only tests set other values.
type Retries struct {
	// First is the time until the first retry after a failure. The time doubles with each further retry, up to MaxRetry.
	First time.Duration
	// Unwatched is the interval between reads of objects that are not watched.
	Unwatched time.Duration
}

// AfterUnwatched returns the interval between reads of objects that are not watched.
func (r Retries) AfterUnwatched() time.Duration { return cmp.Or(r.Unwatched, unwatched) }

// Options returns the options of a controller with the given number of workers.
func Options(workers int, retries Retries) controller.Options {
	first := cmp.Or(retries.First, minRetry)
	return controller.Options{
		MaxConcurrentReconciles: workers,
		RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](first, max(first, MaxRetry)),
	}
}

// QuotaEased selects the events of ResourceQuotas after which more objects may be created than before. It evaluates the quota's status, as
// the API server does when it admits objects.
func QuotaEased() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, okBefore := e.ObjectOld.(*corev1.ResourceQuota)
			now, okNow := e.ObjectNew.(*corev1.ResourceQuota)
			return okBefore && okNow && eased(&before.Status, &now.Status)
		},
		DeleteFunc:  func(event.DeleteEvent) bool { return true },
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}

// eased reports whether a limit was raised or removed, or the usage of a limited resource has decreased.
func eased(before, now *corev1.ResourceQuotaStatus) bool {
	for name, hard := range before.Hard {
		limit, limited := now.Hard[name]
		usedBefore, usedNow := before.Used[name], now.Used[name]
		if !limited || limit.Cmp(hard) > 0 || usedNow.Cmp(usedBefore) < 0 {
			return true
		}
	}
	return false
}

// NotOurs selects the deletions of objects for which owned returns false, because a deletion frees the name of the object, for which an
// object of Trellis may wait. The deletion of an owned object triggers a reconcile of its owner anyway.
func NotOurs(owned func(client.Object) bool) predicate.Predicate {
	return predicate.Funcs{
		CreateFunc:  func(event.CreateEvent) bool { return false },
		UpdateFunc:  func(event.UpdateEvent) bool { return false },
		DeleteFunc:  func(e event.DeleteEvent) bool { return !owned(e.Object) },
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}
