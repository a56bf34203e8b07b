// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/trellis-k8s/trellis/internal/capacity"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// onHost is a pod with a GPU of the priority of placeholders and with their label.
func onHost(namespace, host string) *corev1.Pod {
	pod := withGPU(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: "on-" + host, UID: types.UID(namespace + host), Labels: map[string]string{capacity.LabelAsk: "x"},
	}})
	pod.Spec.NodeName, pod.Spec.Priority = host, ptr.To[int32](capacity.Priority)
	return pod
}

// Placeholders are free capacity for everybody, as the cache has them. A pod of a user with their label is not.
func TestPlaceholdersTakeNothing(t *testing.T) {
	b := newBench(t, Options{Namespace: "own"})
	for _, pod := range []*corev1.Pod{onHost("own", "a0"), onHost("team", "a1")} {
		stored, err := StripPod(pod)
		if err != nil {
			t.Fatal(err)
		}
		b.s.podSet(nil, stored.(*corev1.Pod))
	}
	shape := topology.ShapeOf(withGPU(&corev1.Pod{}))
	if diff := cmp.Diff([]string{"a0", "b0", "b1"}, b.s.HostsFor(shape, 10)); diff != "" {
		t.Errorf("hosts with room (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"a0", "b0"}, b.s.HostsFor(shape, 2)); diff != "" {
		t.Errorf("at most two of them (-want +got):\n%s", diff)
	}
	b.s.podGone(onHost("own", "a0"))
	if _, bound := b.s.ledger.cluster.Bound("own/on-a0"); bound {
		t.Error("it was counted")
	}
}

// The placeholders on the hosts of a gang are deleted before its first pod is released.
func TestPlaceholdersAreDeletedBeforeARelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, placer := newBench(t, Options{}), &recording{}
		g := aGang(placer)
		g.gang.Graph.UID = "u"
		for i, r := range g.pods {
			b.s.ledger.pods.begin(r, time.Now())
			b.s.ledger.cluster.Assume(topology.PodID(r.Pod), []string{"b0", "a0", "a0"}[i], topology.ShapeOf(r.Pod))
		}
		g.hosts = b.s.ledger.hostsOf(append(slices.Clone(g.pods), gang.Release{Pod: onHost("ns", "nowhere")}))
		var order []string
		b.s.writers.clear = func(_ context.Context, graph types.UID, hosts []string) {
			order = append(order, string(graph))
			order = append(order, hosts...)
			placer.mu.Lock()
			defer placer.mu.Unlock()
			order = append(order, placer.released...)
		}
		b.s.writers.release(t.Context(), []*gangRelease{g})
		synctest.Wait()
		if diff := cmp.Diff([]string{"u", "a0", "b0"}, order); diff != "" {
			t.Errorf("the deployment, the hosts, and what was released by then (-want +got):\n%s", diff)
		}
		if len(placer.released) != 3 {
			t.Errorf("%v were released", placer.released)
		}
	})
}
