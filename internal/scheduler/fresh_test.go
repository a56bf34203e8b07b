// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/trellis-k8s/trellis/internal/provider"
	gates "github.com/trellis-k8s/trellis/internal/provider/gates/placer"
)

// lockWatcher answers nothing and notes whether the cluster cache stood still when pods were read.
type lockWatcher struct {
	client.Reader
	s      *Scheduler
	locked []bool
}

func (w *lockWatcher) List(_ context.Context, l client.ObjectList, _ ...client.ListOption) error {
	if _, pods := l.(*corev1.PodList); pods {
		free := w.s.ledger.mu.TryLock()
		if free {
			w.s.ledger.mu.Unlock()
		}
		w.locked = append(w.locked, !free)
	}
	return nil
}

// A decision from a list of pods that is older than the cluster cache gives capacity to pods that have theirs already, on other hosts: what
// is decided from is read while the cluster cache stands still.
func TestDecidesFromWhatIsNotOlderThanTheClusterCache(t *testing.T) {
	s := New(nil, provider.New(provider.Options{}, provider.All{Placers: []provider.Placer{gates.Placer{}}}), events.NewFakeRecorder(1), NewResults(func(types.NamespacedName) {}), Options{})
	w := &lockWatcher{Reader: fake.NewClientBuilder().Build(), s: s}
	s.objects.reader = w
	s.schedule(t.Context(), asking(1, 1, 0).DGD)
	if len(w.locked) == 0 || !w.locked[len(w.locked)-1] {
		t.Errorf("pods were last read while the cluster cache could change: %v", w.locked)
	}
}
