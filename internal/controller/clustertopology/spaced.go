// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package clustertopology

import (
	"context"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/trellis-k8s/trellis/internal/controller/pace"
)

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// spaced has what objects concern looked at: at once, and for all that follow within [pace.Interval] once more at its end. Each look goes through
// all deployments that use a topology; without it a thousand that come at once would be gone through a thousand times.
func spaced(concerns handler.MapFunc) handler.EventHandler {
	last := &pace.Writes{}
	add := func(ctx context.Context, to queue, object client.Object) {
		for _, request := range concerns(ctx, object) {
			left := last.Left(request.NamespacedName)
			if left == 0 {
				last.Wrote(request.NamespacedName)
			}
			to.AddAfter(request, left)
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, to queue) { add(ctx, to, e.Object) },
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, to queue) { add(ctx, to, e.Object) },
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, to queue) {
			add(ctx, to, e.ObjectOld) // which may concern another one
			add(ctx, to, e.ObjectNew)
		},
	}
}
