// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-k8s/trellis/internal/render"
)

// BenchmarkCreatedToReleased measures how long ten pods wait behind their gates: from the creation of the deployment until the last of
// them has been placed and released, as a client sees it. Against it stands the same deployment without any constraint, whose
// pods need no release: from its creation until the last pod exists.
//
//	go test -C test/e2e . -run '^$' -bench CreatedToReleased -benchtime 20x
func BenchmarkCreatedToReleased(b *testing.B) {
	e := newEnvironment(b, "bench", asShared)
	for _, constrained := range []bool{true, false} {
		b.Run(map[bool]string{true: "packed", false: "unconstrained"}[constrained], func(b *testing.B) {
			w := newWorldIn(b, e, fmt.Sprintf("bench-%v-%d", constrained, b.N), racks(4, 8, "a/r0", "a/r1", "b/r0", "b/r1", "b/r2")...)
			var total time.Duration
			for i := range b.N {
				total += w.release(fmt.Sprintf("g%d", i), constrained)
			}
			b.ReportMetric(float64(total.Milliseconds())/float64(b.N), "ms/graph")
		})
	}
}

// release creates a graph of ten pods and returns how long it took until none of them was gated; then it deletes the graph.
func (w *world) release(name string, constrained bool) time.Duration {
	w.t.Helper()
	dgd := w.graphOf(name, "zone", services{"Worker": worker(2, 4, 8, "rack"), "Frontend": frontend(2)})
	if !constrained {
		dgd = w.graphOf(name, "", services{"Worker": worker(8, 1, 8, ""), "Frontend": frontend(2)})
		dgd.Spec.TopologyConstraint = nil
	}
	pods := &corev1.PodList{}
	if err := w.c.List(w.t.Context(), pods, client.InNamespace(w.name)); err != nil {
		w.t.Fatal(err)
	}
	watcher, err := w.c.Watch(w.t.Context(), &corev1.PodList{}, client.InNamespace(w.name), &client.ListOptions{Raw: fromVersion(pods.ResourceVersion)})
	if err != nil {
		w.t.Fatal(err)
	}
	defer watcher.Stop()
	started := time.Now()
	w.create(dgd)
	open := map[string]bool{}
	for e := range watcher.ResultChan() {
		pod, ok := e.Object.(*corev1.Pod)
		if ok && e.Type != watch.Deleted && pod.DeletionTimestamp == nil && !render.GateClosed(pod) {
			open[pod.Name] = true
		}
		if len(open) == 10 {
			break
		}
	}
	took := time.Since(started)
	if err := w.c.Delete(w.t.Context(), dgd); err != nil {
		w.t.Fatal(err)
	}
	w.until("the graph is gone", func() error {
		if n := len(w.all()); n > 0 {
			return fmt.Errorf("%d pods are left", n)
		}
		return nil
	})
	return took
}
