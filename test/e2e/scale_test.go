// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/hack/sandbox"
	"github.com/trellis-k8s/trellis/internal/render"
)

// BenchmarkReadyAtScale creates GRAPHS (300) graphs of five pods at once and measures, as a client sees it, how long after its last pod a graph
// is Ready, and how often statuses are written on the way there.
//
//	GRAPHS=300 go test -C test/e2e . -run '^$' -bench ReadyAtScale -benchtime 1x
func BenchmarkReadyAtScale(b *testing.B) {
	graphs := 300
	if n, err := strconv.Atoi(os.Getenv("GRAPHS")); err == nil {
		graphs = n
	}
	var paths []string
	for i := range (graphs + 7) / 8 { // a rack of 4 hosts with 8 GPUs holds 8 graphs
		paths = append(paths, fmt.Sprintf("a/r%d", i))
	}
	e := newEnvironment(b, "bench", asShared)
	for i := range b.N {
		w := newWorldIn(b, e, fmt.Sprintf("scale-%d", i), racks(4, 8, paths...)...)
		w.readyAtScale(b, graphs)
	}
}

func (w *world) readyAtScale(b *testing.B, graphs int) {
	pods, deployments := w.watch(&corev1.PodList{}), w.watch(&nvidiav1alpha1.DynamoGraphDeploymentList{})
	groups := w.watch(&trellisv1alpha1.ScalingGroupList{})
	started := time.Now()
	go func() {
		for i := range graphs {
			w.create(w.graphOf(fmt.Sprintf("g%d", i), "zone", services{"Worker": worker(1, 4, 1, "rack"), "Frontend": frontend(1)}))
		}
	}()
	podReady, graphReady, lastPod := map[string]time.Time{}, map[string]time.Time{}, map[string]time.Time{}
	writes := map[string]int{}
	for len(graphReady) < graphs {
		select {
		case e, open := <-pods:
			pod, ok := e.Object.(*corev1.Pod)
			if !open || !ok {
				b.Fatalf("the watch of pods has ended with %d of %d graphs Ready", len(graphReady), graphs)
			}
			if _, known := podReady[pod.Name]; !known && isReady(pod) {
				podReady[pod.Name] = time.Now()
				lastPod[pod.Labels[render.LabelGraph]] = time.Now()
			}
		case e, open := <-deployments:
			dgd, ok := e.Object.(*nvidiav1alpha1.DynamoGraphDeployment)
			if !open || !ok {
				b.Fatalf("the watch of deployments has ended with %d of %d graphs Ready", len(graphReady), graphs)
			}
			writes["deployment"]++
			if _, known := graphReady[dgd.Name]; !known && meta.IsStatusConditionTrue(dgd.Status.Conditions, nvidiav1alpha1.ConditionReady) {
				graphReady[dgd.Name] = time.Now()
			}
		case <-groups:
			writes["group"]++
		case <-b.Context().Done():
			b.Fatalf("%d of %d graphs are Ready, with %d Ready pods", len(graphReady), graphs, len(podReady))
		}
	}
	var lags []time.Duration
	var last time.Time
	before := 0
	for name, at := range graphReady {
		lags = append(lags, at.Sub(lastPod[render.LabelValue(name)]))
		last = latest(last, lastPod[render.LabelValue(name)])
	}
	for _, at := range graphReady {
		if !at.After(last) {
			before++
		}
	}
	slices.SortFunc(lags, cmp.Compare[time.Duration])
	b.ReportMetric(last.Sub(started).Seconds(), "s/last-pod-ready")
	b.ReportMetric(float64(before), "graphs-ready-by-then")
	b.ReportMetric(lags[len(lags)/2].Seconds(), "s/lag-median")
	b.ReportMetric(lags[len(lags)-1].Seconds(), "s/lag-most")
	b.ReportMetric(float64(writes["deployment"])/float64(graphs), "deployment-writes/graph")
	b.ReportMetric(float64(writes["group"])/float64(graphs), "group-writes/graph")
	w.reportOperator(b, graphs)
}

// reportOperator reports what the operator's controllers did for each graph: reconciles, and how long one waited in its queue on average.
func (w *world) reportOperator(b *testing.B, graphs int) {
	reader, err := w.cluster.NewMetricsReader(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	text, err := reader.Read(b.Context(), w.cluster.ManagerMetrics(sandbox.DefaultManager))
	if err != nil {
		b.Fatal(err)
	}
	for _, name := range []string{"graph", "scalinggroup"} {
		total := func(metric, labels string) (sum float64) {
			for line := range strings.Lines(text) {
				if strings.HasPrefix(line, metric+"{") && strings.Contains(line, labels) {
					fields := strings.Fields(line)
					value, _ := strconv.ParseFloat(fields[len(fields)-1], 64)
					sum += value
				}
			}
			return sum
		}
		reconciles := total("controller_runtime_reconcile_total", fmt.Sprintf("controller=%q", name))
		b.ReportMetric(reconciles/float64(graphs), name+"-reconciles/graph")
		b.ReportMetric(1000*total("controller_runtime_reconcile_time_seconds_sum", fmt.Sprintf("controller=%q", name))/reconciles, name+"-ms/reconcile")
		b.ReportMetric(1000*total("workqueue_queue_duration_seconds_sum", fmt.Sprintf("name=%q", name))/reconciles, name+"-ms/queued")
	}
}

// watch returns the events of a kind in the world's namespace, those of its creation included.
func (w *world) watch(list client.ObjectList) <-chan watch.Event {
	w.t.Helper()
	if err := w.c.List(w.t.Context(), list, client.InNamespace(w.name)); err != nil {
		w.t.Fatal(err)
	}
	watcher, err := w.c.Watch(w.t.Context(), list, client.InNamespace(w.name), &client.ListOptions{Raw: fromVersion(list.GetResourceVersion())})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(watcher.Stop)
	events := make(chan watch.Event, 10_000) // the API server ends the watch of a client that does not keep up
	go func() {
		for e := range watcher.ResultChan() {
			events <- e
		}
		close(events)
	}()
	return events
}

func isReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
