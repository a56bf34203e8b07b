// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package clustertopology

import (
	"context"
	"slices"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/trellis-k8s/trellis/internal/controller/pace"
)

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// spaced returns an event handler that queues the topologies that concerns returns for an object. The handler queues a topology immediately
// at the first event, and once more at the end of [pace.Interval] for all further events within the interval. Each reconcile reads all
// deployments that use a topology, so a thousand simultaneous deployments would otherwise cause a thousand such reconciles.
func spaced(concerns handler.MapFunc) handler.EventHandler {
	last := &pace.Writes{}
	add := func(to queue, requests ...reconcile.Request) {
		for _, request := range requests {
			left := last.Left(request.NamespacedName)
			if left == 0 {
				last.Wrote(request.NamespacedName)
			}
			last.Settled(request.NamespacedName) // each topology waits independently of the others
			to.AddAfter(request, left)
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, to queue) { add(to, concerns(ctx, e.Object)...) },
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, to queue) { add(to, concerns(ctx, e.Object)...) },
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, to queue) {
			now := concerns(ctx, e.ObjectNew)
			add(to, now...)
			for _, former := range concerns(ctx, e.ObjectOld) {
				if !slices.Contains(now, former) {
					add(to, former)
				}
			}
		},
	}
}
