// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/provider"
)

// recording is a placer that notes who is released, and when it first answers.
type recording struct {
	silent
	mu       sync.Mutex
	released []string
	// failing is the pod whose release fails.
	failing string
}

func (r *recording) Release(_ context.Context, pod *corev1.Pod, _ gang.Pin) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.released = append(r.released, pod.Name)
	if pod.Name == r.failing {
		return provider.ErrElsewhere
	}
	return nil
}

// aGang has pods that were created one after the other, the last one first.
func aGang(placer provider.Placer) *gangRelease {
	g := &gangRelease{placer: placer, gang: gang.Members{Name: "g-1", Graph: &nvidiav1beta1.DynamoGraphDeployment{}}}
	for i, name := range []string{"newest", "middle", "oldest"} {
		pod := &corev1.Pod{}
		pod.Namespace, pod.Name, pod.UID = "ns", name, types.UID(name)
		pod.CreationTimestamp = metav1.Unix(int64(100-i), 0)
		g.pods = append(g.pods, gang.Release{Pod: pod})
	}
	return g
}

// The oldest pod of a gang is released before all others, and none of them when another leader has released it to another place: they would
// be released to two places.
func TestOldestPodDecidesWhereAGangGoes(t *testing.T) {
	for failing, want := range map[string][]string{
		"":       {"oldest", "middle", "newest"},
		"oldest": {"oldest"},
		"middle": {"oldest", "middle", "newest"}, // what was released by then anchors the rest
	} {
		synctest.Test(t, func(t *testing.T) {
			b, placer := newBench(t, Options{}), &recording{failing: failing}
			g := aGang(placer)
			for _, r := range g.pods {
				b.s.ledger.pods.begin(r, time.Now())
			}
			b.s.writers.release(t.Context(), []*gangRelease{g})
			synctest.Wait()
			slices.Sort(placer.released[1:])
			if !slices.Equal(placer.released, want) {
				t.Errorf("%q fails: %v were released, want %v", failing, placer.released, want)
			}
			left := map[string]int{"": 3, "oldest": 0, "middle": 2}[failing]
			if n := b.releasing(); n != left {
				t.Errorf("%q fails: the capacity of %d pods is kept, want %d", failing, n, left)
			}
		})
	}
}

// Of pods that were created within one second the first by name is the oldest, in whatever order a leader has planned them.
func TestOldestOfOneSecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, placer := newBench(t, Options{}), &recording{}
		g := aGang(placer)
		for _, r := range g.pods {
			r.Pod.CreationTimestamp = metav1.Unix(100, 0)
		}
		b.s.writers.release(t.Context(), []*gangRelease{g})
		synctest.Wait()
		if placer.released[0] != "middle" {
			t.Errorf("%v were released in this order", placer.released)
		}
	})
}
