// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/gang"
)

// A change of a node's labels has those graphs evaluated again that have pods on it, when it changes the domain of these pods.
func TestARelabelledNodeWakesTheGraphsOnIt(t *testing.T) {
	for name, tc := range map[string]struct {
		host  string
		label func(labels map[string]string)
		want  []types.NamespacedName
	}{
		"another rack":          {"a0", func(labels map[string]string) { labels["r"] = "b" }, []types.NamespacedName{{Namespace: "ns", Name: "g1"}}},
		"no zone":               {"a0", func(labels map[string]string) { delete(labels, "z") }, []types.NamespacedName{{Namespace: "ns", Name: "g1"}}},
		"a label of no level":   {"a0", func(labels map[string]string) { labels["pool"] = "q" }, nil},
		"a host without pods":   {"a1", func(labels map[string]string) { labels["r"] = "b" }, nil},
		"a host of another one": {"b0", func(labels map[string]string) { labels["r"] = "c" }, []types.NamespacedName{{Namespace: "ns", Name: "g2"}}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, Options{})
			scheme := runtime.NewScheme()
			for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, trellisv1alpha1.AddToScheme} {
				if err := add(scheme); err != nil {
					t.Fatal(err)
				}
			}
			indexed := fake.NewClientBuilder().WithScheme(scheme)
			if err := AddIndexes(t.Context(), indexer{indexed}); err != nil {
				t.Fatal(err)
			}
			for i, host := range []string{"a0", "b0"} {
				o := asking(i+1, 1, 0)
				o.Pods[0].Spec.NodeName = host
				indexed.WithObjects(o.Groups[0], o.Pods[0])
			}
			b.s.objects.reader = indexed.Build()
			old := hostOf(tc.host, tc.host[:1], 1)
			now := old.DeepCopy()
			tc.label(now.Labels)
			b.s.nodeSet(t.Context(), old, now)
			if due, _ := b.s.queue.take(b.clock.Now()); !cmp.Equal(due, tc.want) {
				t.Errorf("to be looked at are %v, want %v", due, tc.want)
			}
		})
	}
}

// indexer adds indexes to a fake client.
type indexer struct{ *fake.ClientBuilder }

func (i indexer) IndexField(_ context.Context, object client.Object, field string, values client.IndexerFunc) error {
	i.WithIndex(object, field, values)
	return nil
}

// A graph whose rack is relabelled under one of its two pods is still placed, and its result has its score and the replica that is outside.
func TestARelabelledRackChangesTheResult(t *testing.T) {
	b := newIdleBench(t)
	o := b.released(func(*corev1.Pod) {})
	for i, pod := range o.Pods {
		pod.Spec.NodeName = []string{"a0", "a1"}[i]
	}
	b.deliver(o)
	result := func() gang.Result {
		_, d, err := b.s.ledger.decideNow(t.Context(), clientKey(o), asRead(o), true, func(*decision) {})
		if err != nil {
			t.Fatal(err)
		}
		return d.result
	}
	if r := result(); r.Score != 1 || len(r.Outside) > 0 {
		t.Fatalf("at first: score %v, outside %v", r.Score, r.Outside)
	}
	b.host("a1", "c", 1)
	want := []gang.Outside{{Code: gang.CodeOutsideReplicaDomain, Message: "work-0 has 1 of 2 pods outside rack z/a, in z/c"}}
	if r := result(); r.Score != 0.75 || r.Placed != 1 || len(r.Waiting) > 0 || !cmp.Equal(r.Outside, want) {
		t.Errorf("score %v, placed %d, waiting %v, outside %v", r.Score, r.Placed, r.Waiting, r.Outside)
	}
}
