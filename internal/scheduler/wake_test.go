// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/provider"
	gates "github.com/trellis-k8s/trellis/internal/provider/gates/placer"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// graphs is a cache of graphs by name: the fake client copies all objects for each list, which a thousand graphs do not bear.
type graphs map[string]gang.Observation

func (g graphs) Get(_ context.Context, name types.NamespacedName, object client.Object, _ ...client.GetOption) error {
	o, found := g[name.Name]
	found = found && o.DGD.Namespace == name.Namespace
	switch out := object.(type) {
	case *trellisv1alpha1.ScalingGroup:
		if o, found := g[strings.TrimSuffix(name.Name, "-work")]; found {
			o.Groups[0].DeepCopyInto(out)
			return nil
		}
	case *nvidiav1beta1.DynamoGraphDeployment:
		if found {
			o.DGD.DeepCopyInto(out)
			return nil
		}
	case *grovev1alpha1.ClusterTopology:
		hall.DeepCopyInto(out)
		return nil
	}
	return apierrors.NewNotFound(schema.GroupResource{}, name.Name)
}

func (g graphs) List(_ context.Context, list client.ObjectList, opts ...client.ListOption) error {
	options := client.ListOptions{}
	options.ApplyOptions(opts)
	switch out := list.(type) {
	case *corev1.PodList:
		name, _ := options.FieldSelector.RequiresExactMatch(IndexPodsByGraph)
		for _, pod := range g[name].Pods {
			out.Items = append(out.Items, *pod)
		}
	case *nvidiav1beta1.DynamoGraphDeploymentList:
		for _, o := range g {
			out.Items = append(out.Items, *o.DGD)
		}
	case *trellisv1alpha1.ScalingGroupList:
		if options.FieldSelector == nil {
			for _, o := range g {
				for _, sg := range o.Groups {
					out.Items = append(out.Items, *sg)
				}
			}
			return nil
		}
		uid, _ := options.FieldSelector.RequiresExactMatch(IndexGroupsByGraph)
		for _, sg := range g[uid].Groups { // a graph's UID is its name
			out.Items = append(out.Items, *sg)
		}
	}
	return nil
}

// plans counts the plans made since the process started.
func plans(t testing.TB) int {
	m := dto.Metric{}
	if err := planSeconds.Write(&m); err != nil {
		t.Fatal(err)
	}
	return int(m.GetHistogram().GetSampleCount())
}

// look lets the loop look at all that is due, until nothing is, and returns how many plans it made.
func (b *bench) look() int {
	before := plans(b.t)
	for {
		b.s.wakeFreed()
		due, _ := b.s.queue.take(b.clock.Now())
		if len(due) == 0 && b.s.line.Len() == 0 {
			return plans(b.t) - before
		}
		b.s.round(b.t.Context(), due)
	}
}

// silent is a provider that writes nothing.
type silent struct{ gates.Placer }

func (silent) Release(context.Context, *corev1.Pod, gang.Pin) error { return nil }

// waitingGraphs is a full cluster in which graphs wait, of so many hosts of a rack each.
func waitingGraphs(t testing.TB, sizes ...int32) *bench {
	b := newBench(t, Options{})
	all := graphs{}
	b.s.objects.reader, b.s.providers = all, provider.New(provider.Options{}, provider.All{Placers: []provider.Placer{silent{}}})
	b.taken("a0", "a1", "b0", "b1")
	for rack := range 50 {
		for i := range 4 {
			host := fmt.Sprintf("h%d-%d", rack, i)
			b.host(host, fmt.Sprint("r", rack), 1)
			b.taken(host)
		}
	}
	for number, size := range sizes {
		o := asking(number+1, size, 0)
		all[o.DGD.Name] = o
		b.s.queue.add(clientKey(o))
	}
	if n := b.look(); n != len(sizes) || len(b.s.queue.waiting) != len(sizes) {
		t.Fatalf("%d plans, %d wait", n, len(b.s.queue.waiting))
	}
	return b
}

func (b *bench) gone(host string) {
	pod := withGPU(&corev1.Pod{})
	pod.Namespace, pod.Name, pod.UID, pod.Spec.NodeName = "other", host, types.UID("on-"+host), host
	b.s.podGone(pod)
}

func sizes(n int, size int32, more ...int32) []int32 {
	for range n {
		more = append(more, size)
	}
	return more
}

// One host becomes free while a thousand graphs wait: planned are those that it is enough for, until it is taken.
func TestAFreedHostWakesWhomItConcerns(t *testing.T) {
	for name, tc := range map[string]struct {
		sizes []int32
		most  int
		first string
	}{
		"all need four hosts":            {sizes(200, 4), 0, ""},
		"five need one":                  {append(sizes(995, 4), 1, 1, 1, 1, 1), 10, "g996"},
		"all need one: the first has it": {sizes(200, 1), 10, "g1"},
		"the last one needs one":         {append(sizes(199, 2), 1), 10, "g200"},
		"all need two of a rack":         {sizes(200, 2), 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			b := waitingGraphs(t, tc.sizes...)
			b.gone("h7-2")
			if n := b.look(); n > tc.most || n < min(tc.most, 1) {
				t.Errorf("%d plans, want at most %d", n, tc.most)
			}
			if _, waits := b.s.queue.waiting[types.NamespacedName{Namespace: "ns", Name: tc.first}]; waits {
				t.Errorf("%s is not placed", tc.first)
			}
			if placed := b.releasing(); placed != min(tc.most, 1) {
				t.Errorf("%d pods were placed", placed)
			}
			b.pass(refreshAfter)
			if n := b.look(); n < len(tc.sizes)-tc.most {
				t.Errorf("after %s %d graphs say how it is now", refreshAfter, n)
			}
		})
	}
}

// A pod of others that is resized in place to less wakes whom it concerns, and one that takes more wakes no one.
func TestAResizedPodWakes(t *testing.T) {
	b := waitingGraphs(t, 1)
	pod := withGPU(&corev1.Pod{})
	pod.Namespace, pod.Name, pod.UID, pod.Spec.NodeName = "other", "a0", "on-a0", "a0"
	for _, step := range []struct {
		cpu, gpu string
		want     int
	}{{"1", "1", 0}, {"2", "1", 0}, {"2", "0", 1}} {
		old := pod
		pod = old.DeepCopy()
		pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{"cpu": resource.MustParse(step.cpu), "gpu": resource.MustParse(step.gpu)}
		b.s.podSet(old, pod)
		if n := b.look(); n != step.want {
			t.Errorf("%s cpu, %s gpu: %d plans, want %d", step.cpu, step.gpu, n, step.want)
		}
	}
}

// Whatever frees capacity wakes the loop, and what does not, does not.
func TestFreedCapacityWakesTheLoop(t *testing.T) {
	smaller := withGPU(&corev1.Pod{})
	smaller.Namespace, smaller.Name, smaller.UID, smaller.Spec.NodeName = "other", "a0", "on-a0", "a0"
	smaller.Spec.Containers[0].Resources.Requests = nil
	for name, tc := range map[string]struct {
		do   func(*bench)
		want bool
	}{
		"a pod ends":         {func(b *bench) { b.gone("a0") }, true},
		"a pod needs less":   {func(b *bench) { b.s.podSet(nil, smaller) }, true},
		"a release fails":    {func(b *bench) { b.s.ledger.notReleased(gang.Release{Pod: asking(1, 1, 0).Pods[0]}, false, nil) }, true},
		"a hold ends":        {func(b *bench) { b.pass(time.Hour) }, true},
		"a node is deleted":  {func(b *bench) { b.s.ledger.nodeGone(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a0"}}) }, true},
		"a pod is added":     {func(b *bench) { b.s.podSet(nil, onNode("new", "b1", begin, 0)) }, false},
		"a pod is unchanged": {func(b *bench) { b.s.podSet(nil, onNode("on-b0", "b0", begin, 0)) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, Options{})
			b.taken("a0", "b0")
			b.ask(asking(1, 1, 0))
			b.s.ledger.holds.add(b.s.ledger.cluster, types.NamespacedName{Name: "x"}, hold{node: "b1", shape: topology.ShapeOf(smaller), until: begin.Add(time.Hour)})
			b.s.wakeFreed()
			for len(b.s.queue.signal) > 0 {
				<-b.s.queue.signal
			}
			tc.do(b)
			if got := len(b.s.queue.signal) > 0; got != tc.want {
				t.Errorf("the loop wakes: %v, want %v", got, tc.want)
			}
		})
	}
}

// A node without the condition Ready has not been judged yet; that it is not ready is news.
func TestAJudgedNodeIsNews(t *testing.T) {
	b := newBench(t, Options{})
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Status: corev1.NodeStatus{
		Allocatable: corev1.ResourceList{"gpu": resource.MustParse("1"), corev1.ResourcePods: resource.MustParse("10")},
	}}
	old := node.DeepCopy()
	b.s.ledger.nodeChanged(nil, old)
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionFalse}}
	b.s.ledger.nodeChanged(old, node)
	if _, why := b.s.ledger.cluster.Why("n", topology.ShapeOf(withGPU(&corev1.Pod{}))); !why {
		t.Error("a node that is not ready takes pods")
	}
}

// What the cheap look cannot know wakes a graph in any case: capacity of its own, and of pods that it may preempt.
func TestWakesWhenItCannotTell(t *testing.T) {
	for name, tc := range map[string]struct {
		edit func(*bench)
		want int
	}{
		"plainly": {func(*bench) {}, 0},
		"a hold of its own": {func(b *bench) {
			b.s.ledger.holds.byPod[types.NamespacedName{Name: "x"}] = held("g1")
		}, 1},
		"a hold of another graph": {func(b *bench) {
			b.s.ledger.holds.byPod[types.NamespacedName{Name: "x"}] = held("g2")
		}, 0},
		"reserved hosts":         {func(b *bench) { b.s.ledger.reserver.current = &domainReservation{} }, 1},
		"pods of lower priority": {func(b *bench) { b.preemptible("h0-0") }, 1},
		"a reason of another kind": {func(b *bench) {
			w := b.s.queue.waiting[types.NamespacedName{Namespace: "ns", Name: "g1"}]
			w.unmet = nil
			b.s.queue.waiting[types.NamespacedName{Namespace: "ns", Name: "g1"}] = w
		}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			b := waitingGraphs(t, 4)
			tc.edit(b)
			b.gone("h7-2")
			if n := b.look(); n != tc.want {
				t.Errorf("%d plans, want %d", n, tc.want)
			}
		})
	}
}

// held is a hold for a graph.
func held(graph string) hold {
	return hold{node: "h0-0", shape: topology.ShapeOf(withGPU(&corev1.Pod{})), graph: types.NamespacedName{Namespace: "ns", Name: graph}, until: begin.Add(time.Hour)}
}

func (b *bench) preemptible(host string) {
	lowest := int32(-5)
	pod := withGPU(&corev1.Pod{})
	pod.Namespace, pod.Name, pod.UID, pod.Spec.NodeName, pod.Spec.Priority = "other", host, "low", host, &lowest
	b.s.ledger.cluster.SetPod(pod)
}

// When much changes at once, comparing costs more than planning.
func TestManyFreedHostsWakeAll(t *testing.T) {
	b := waitingGraphs(t, 4, 4)
	for rack := range maxFreed + 1 {
		b.gone(fmt.Sprintf("h%d-0", rack))
	}
	if n := b.look(); n != 2 {
		t.Errorf("%d plans, want one for each graph", n)
	}
}

// BenchmarkOneHostFreed: a thousand graphs wait, and one host is freed that is enough for none.
func BenchmarkOneHostFreed(b *testing.B) {
	w := waitingGraphs(b, sizes(1000, 4)...)
	before := plans(b)
	for b.Loop() {
		w.gone("h7-2")
		w.s.wakeFreed()
		w.taken("h7-2")
		w.s.queue.take(w.clock.Now())
	}
	b.ReportMetric(float64(plans(b)-before)/float64(b.N), "plans/op")
}
