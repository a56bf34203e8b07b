// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"errors"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
)

// TestMovesAreRecorded: the hosts that a move frees are in the GraphPlacement before the request for it is written. A move whose hosts cannot
// be recorded is not requested, and its hosts are not reserved.
func TestMovesAreRecorded(t *testing.T) {
	for name, c := range map[string]struct {
		fails    error
		requests int
	}{
		"written":   {requests: 1},
		"a failure": {fails: errors.New("no GraphPlacements today")},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFreeing(t, time.Minute)
			pod := f.runs(1, "a0", 2*time.Hour)
			store := newRecordStore(t, f.bench)
			f.s.objects.reader = graphs{"g1": f.movable[0], "g5": f.big}
			requests := 0
			f.s.options.Moves = interceptor.NewClient(fake.NewClientBuilder().WithScheme(store.Scheme()).WithObjects(pod.DeepCopy()).Build(), interceptor.Funcs{
				Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, opts ...client.PatchOption) error {
					requests++
					recorded := &trellisv1alpha1.GraphPlacement{}
					if err := store.Get(ctx, clientKey(f.big), recorded); err != nil || recorded.Spec.Freed == nil || len(recorded.Spec.Freed.Hosts) != 2 {
						t.Errorf("requested, and recorded is %+v: %v", recorded.Spec.Freed, err)
					}
					return c.Patch(ctx, object, patch, opts...)
				},
			})
			f.ask(f.big)
			f.pass(time.Minute)
			store.err = c.fails
			f.s.freePlaces(t.Context())
			if requests != c.requests || store.writes == 0 {
				t.Errorf("%d requests, want %d, and %d writes of records", requests, c.requests, store.writes)
			}
			if c.fails == nil {
				return
			}
			f.s.freePlaces(t.Context())
			if f.s.ledger.reserver.current != nil || len(f.s.ledger.freer.requests) > 0 {
				t.Errorf("hosts are reserved: %+v, requests: %v", f.s.ledger.reserver.current, f.s.ledger.freer.requests)
			}
		})
	}
}
