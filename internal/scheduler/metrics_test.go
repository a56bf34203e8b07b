// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/placement"
	"github.com/trellis-k8s/trellis/internal/provider"
)

// withTopology is a cache of graphs that has the ClusterTopology too, and counts how often it is asked for that.
type withTopology struct {
	graphs
	asked int
}

func (w *withTopology) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if out, ok := list.(*grovev1alpha1.ClusterTopologyList); ok {
		w.asked++
		out.Items = []grovev1alpha1.ClusterTopology{*hall}
		return nil
	}
	return w.graphs.List(ctx, list, opts...)
}

// measured is a bench whose metrics are read.
type measured struct {
	*bench
	all *withTopology
}

func measure(t *testing.T, o Options) measured {
	b, all := newBench(t, o), &withTopology{graphs: graphs{}}
	b.s.objects.reader, b.s.providers = all, provider.New(provider.Options{}, provider.All{Placers: []provider.Placer{silent{}}})
	running.Store(b.s)
	graphsWaiting.Set(0) // it may have the value of another test's loop
	domainReserved.Set(0)
	t.Cleanup(func() { running.Store(nil) })
	return measured{b, all}
}

// wants adds a graph of one replica of so many pods, created now.
func (m measured) wants(number int, pods int32) gang.Observation {
	o := asking(number, pods, 0)
	for _, pod := range o.Pods {
		pod.CreationTimestamp = metav1.Time{Time: m.clock.Now()}
		pod.Spec.PriorityClassName = "gold"
	}
	m.all.graphs[o.DGD.Name] = o
	m.looks(o)
	return o
}

func (m measured) looks(o gang.Observation) {
	m.s.queue.add(clientKey(o))
	m.look()
}

// readings are all series of trellis metrics but buckets, by name and labels.
func (m measured) readings() map[string]float64 {
	m.t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(Collectors()...)
	families, err := registry.Gather()
	if err != nil {
		m.t.Fatal(err)
	}
	out := map[string]float64{}
	for _, family := range families {
		for _, metric := range family.Metric {
			name := family.GetName()
			for _, label := range metric.Label {
				name += " " + label.GetValue()
			}
			out[name] = metric.GetGauge().GetValue() + metric.GetCounter().GetValue() + metric.GetHistogram().GetSampleSum()
			if metric.Histogram != nil {
				out[name+" n"] = float64(metric.Histogram.GetSampleCount())
			}
		}
	}
	return out
}

// changes are the readings that differ from earlier ones, as text.
func changes(before, after map[string]float64) []string {
	var out []string
	for name, value := range after {
		if value != before[name] && !strings.HasPrefix(name, "trellis_plan_duration") {
			out = append(out, fmt.Sprintf("%s: %v", name, value-before[name]))
		}
	}
	slices.Sort(out)
	return out
}

func (m measured) expect(what string, before map[string]float64, want ...string) map[string]float64 {
	m.t.Helper()
	after := m.readings()
	if got := changes(before, after); !slices.Equal(got, want) {
		m.t.Errorf("%s changed\n  %s\nwant\n  %s", what, strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
	return after
}

// A gang waits, is evaluated again, and is placed when a host is freed.
func TestMetricsOfAGang(t *testing.T) {
	m := measure(t, Options{RequeueAfter: 30 * time.Second, MetricResources: []string{"gpu"}})
	m.taken("a0", "b0")
	before := m.readings()

	o := m.wants(1, 2)
	m.pass(gatherEvery)
	before = m.expect("waiting", before, "trellis_gangs_waiting InsufficientCapacity: 1", "trellis_graphs_waiting: 1", "trellis_longest_wait_seconds: 10",
		"trellis_replicas_refused_total InsufficientCapacity: 1")
	m.looks(o)
	m.looks(o)
	before = m.expect("looking again", before)

	m.pass(80 * time.Second)
	m.freed("a0")
	m.looks(o)
	m.expect("placing", before, "trellis_gangs_waiting InsufficientCapacity: -1", "trellis_graphs_waiting: -1",
		"trellis_level_fragmentation_ratio rack 1 gpu: -0.5", "trellis_level_free cluster gpu: -1", "trellis_level_free rack gpu: -1", "trellis_level_free zone gpu: -1",
		"trellis_level_largest_gang cluster 1 gpu: -1", "trellis_level_largest_gang zone 1 gpu: -1",
		"trellis_longest_wait_seconds: -10", "trellis_placement_score n: 1", "trellis_placement_score: 1", "trellis_replicas_placed_total: 1",
		"trellis_time_to_placement_seconds gold n: 1", "trellis_time_to_placement_seconds gold: 90")
}

// A gang whose pods are recreated while it waits continues waiting: its time counts from the first ones.
func TestWaitingGoesOnWithOtherPods(t *testing.T) {
	m := measure(t, Options{})
	m.taken("a0", "a1", "b0", "b1")
	o := m.wants(1, 1)
	m.pass(40 * time.Second)
	o.Pods[0].CreationTimestamp.Time = m.clock.Now()
	m.looks(o)
	before := m.readings()
	m.pass(2 * time.Second)
	m.freed("a0")
	m.looks(o)
	if got := m.readings()["trellis_time_to_placement_seconds gold"] - before["trellis_time_to_placement_seconds gold"]; got != 42 {
		t.Errorf("it waited %v seconds, want 42", got)
	}
}

// The time from release to bound is of the pods that this loop released.
func TestReleaseToBound(t *testing.T) {
	m := measure(t, Options{})
	o := m.wants(1, 2)
	before := m.readings()
	m.pass(3 * time.Second)
	bound := o.Pods[0].DeepCopy()
	bound.Spec.NodeName = "a0"
	m.s.podSet(o.Pods[0], bound)
	m.s.podSet(bound, bound)
	stranger := withGPU(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: "x", UID: "x"}})
	stranger.Spec.NodeName = "b1"
	m.s.podSet(nil, stranger)
	m.expect("binding", before, "trellis_release_to_bound_seconds n: 1", "trellis_release_to_bound_seconds: 3")
	m.s.podGone(o.Pods[1])
	if m.count(func(r *released) bool { return !r.at.IsZero() }) > 0 {
		t.Errorf("still followed: %+v", m.s.ledger.pods.byID)
	}
}

// An eviction is counted by who refused to bind the gang, and that it waits again by why.
func TestEvictionsAndRequeues(t *testing.T) {
	for name, tc := range map[string]struct {
		edit func(m measured, o gang.Observation)
		want []string
	}{
		"evicted": {func(m measured, o gang.Observation) {
			m.s.providers = provider.New(provider.Options{}, provider.All{Placers: []provider.Placer{&objecting{}}})
			pod := o.Pods[0].DeepCopy()
			pod.Spec.SchedulingGates, pod.Annotations = nil, map[string]string{"trellis.dev/gang": "g1-gang"}
			pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}}
			m.track(pod)
			m.pass(DefaultRequeueAfter)
			stuck := o
			stuck.Pods = []*corev1.Pod{pod}
			if !m.s.requeueStuck(t.Context(), stuck) {
				t.Fatal("not evicted")
			}
		}, []string{"trellis_gang_evictions_total Unschedulable: 1", "trellis_gang_requeues_total Evicted: 1"}},
		"preempted": {func(m measured, _ gang.Observation) { m.s.ledger.holds.preempted["ns/g1-work-0"] = m.clock.Now() }, []string{"trellis_gang_requeues_total Preempted: 1"}},
		"replaced":  {func(measured, gang.Observation) {}, []string{"trellis_gang_requeues_total Replaced: 1"}},
	} {
		t.Run(name, func(t *testing.T) {
			m := measure(t, Options{})
			m.taken("a0", "b0", "a1", "b1")
			before := m.readings()
			o := asking(1, 1, 0)
			m.records(o, formerlyAt("z", "a"))
			m.all.graphs[o.DGD.Name] = o
			m.s.results.set(clientKey(o), gang.Result{UID: o.DGD.UID}) // looked at while its replica was placed
			tc.edit(m, o)
			m.looks(o)
			m.looks(o)
			got := slices.DeleteFunc(changes(before, m.readings()), func(line string) bool { return !strings.Contains(line, "_gang_") })
			if !slices.Equal(got, tc.want) {
				t.Errorf("changed %v, want %v", got, tc.want)
			}
		})
	}
}

// A gang that waited already when the operator started is not requeued by that.
func TestAStartRequeuesNothing(t *testing.T) {
	m := measure(t, Options{})
	m.taken("a0", "b0", "a1", "b1")
	before := m.readings()
	o := asking(1, 1, 0)
	m.records(o, formerlyAt("z", "a"))
	m.all.graphs[o.DGD.Name] = o
	m.looks(o)
	m.looks(o)
	for _, line := range changes(before, m.readings()) {
		if strings.Contains(line, "_requeues_") {
			t.Errorf("counted: %s", line)
		}
	}
}

// However many scrapers there are, the cluster is counted every ten seconds at most.
func TestTheClusterIsCountedSeldom(t *testing.T) {
	m := measure(t, Options{MetricResources: []string{"gpu"}})
	for range 5 {
		m.readings()
	}
	m.pass(gatherEvery - time.Second)
	m.readings()
	if m.all.asked != 1 {
		t.Errorf("counted %d times, want once", m.all.asked)
	}
	m.pass(time.Second)
	if m.readings(); m.all.asked != 2 {
		t.Errorf("counted %d times after %s, want twice", m.all.asked, gatherEvery)
	}
}

// A resource that is named twice is counted once: two equal series would have every reading of the operator's metrics refused.
func TestAResourceNamedTwice(t *testing.T) {
	m := measure(t, Options{MetricResources: []string{"gpu", "gpu"}})
	if got := m.readings()["trellis_level_free cluster gpu"]; got != 4 {
		t.Errorf("%v are free, want 4", got)
	}
}

// Metrics by graph are for as many as was asked for, those that wait longest first.
func TestMetricsByGraphAreBounded(t *testing.T) {
	for most, want := range map[int]map[string]float64{
		0: {},
		2: {
			"trellis_graph_replicas g2 ns placed": 0, "trellis_graph_replicas g2 ns waiting": 1, "trellis_graph_replicas g2 ns wanted": 1,
			"trellis_graph_replicas g3 ns placed": 0, "trellis_graph_replicas g3 ns waiting": 1, "trellis_graph_replicas g3 ns wanted": 1,
			"trellis_graph_longest_wait_seconds g2 ns": 60, "trellis_graph_longest_wait_seconds g3 ns": 30, "trellis_graph_metrics_omitted": 1,
		},
	} {
		m := measure(t, Options{MetricGraphs: most})
		m.wants(1, 1)
		m.wants(2, 4)
		m.pass(30 * time.Second)
		m.wants(3, 4)
		m.pass(30 * time.Second)
		got := m.readings()
		maps.DeleteFunc(got, func(name string, _ float64) bool { return !strings.HasPrefix(name, "trellis_graph_") })
		if !maps.Equal(got, want) {
			t.Errorf("at most %d: %v, want %v", most, got, want)
		}
	}
}

// The shares of both roles of a transfer policy are series of their graph; a role without bound replicas has none.
func TestMetricsOfATransferPolicy(t *testing.T) {
	m := measure(t, Options{MetricGraphs: 2})
	policy := frozen("", "")
	policy.KVTransferDomain = "rack"
	decode := []gang.Transferring{{Role: placement.Decode, Domain: []string{"z", "a"}}, {Role: placement.Decode, Domain: []string{"z", "b"}}}
	both := append(slices.Clone(decode), gang.Transferring{Role: placement.Prefill, Domain: []string{"z", "a"}})
	for name, replicas := range map[string][]gang.Transferring{"both": both, "decode": decode} {
		m.s.results.set(types.NamespacedName{Namespace: "ns", Name: name}, gang.Result{Transfer: gang.NewTransfer(policy, replicas)})
	}
	got := m.readings()
	maps.DeleteFunc(got, func(name string, _ float64) bool {
		return !strings.HasPrefix(name, "trellis_graph_kv_transfer_paired_ratio ")
	})
	want := map[string]float64{
		"trellis_graph_kv_transfer_paired_ratio both ns decode": 0.5, "trellis_graph_kv_transfer_paired_ratio both ns prefill": 1,
		"trellis_graph_kv_transfer_paired_ratio decode ns decode": 0,
	}
	if !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// A graph that is gone waits for nothing.
func TestAGoneGraphDoesNotWait(t *testing.T) {
	m := measure(t, Options{})
	o := m.wants(1, 4)
	before := m.readings()
	delete(m.all.graphs, o.DGD.Name)
	m.pass(gatherEvery)
	m.looks(o)
	m.expect("the deletion", before, "trellis_gangs_waiting NeverFits: -1", "trellis_graphs_waiting: -1")
	if len(m.s.ledger.waits) > 0 {
		t.Errorf("still followed: %v", m.s.ledger.waits)
	}
}
