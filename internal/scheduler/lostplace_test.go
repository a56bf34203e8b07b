// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/provider"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// changing is a provider that does not evict the pods that have changed since they were read.
type changing struct {
	objecting
	changed []string
}

func (c *changing) Evict(ctx context.Context, pod *corev1.Pod) error {
	if slices.Contains(c.changed, pod.Name) {
		return provider.ErrPodChanged
	}
	return c.objecting.Evict(ctx, pod)
}

// releasedGang plans a gang of two pods in rack a and shows it to the loop as released, on hosts a0 and a1.
func releasedGang(t *testing.T, number int, priority int32) (*picky, *changing, gang.Observation) {
	t.Helper()
	p, placer := newPicky(t, nil), &changing{}
	p.s.providers = provider.New(provider.Options{}, provider.All{Placers: []provider.Placer{placer}})
	o := p.release(asking(number, 2, priority))
	return p, placer, o
}

// release plans a gang and shows it to the loop as released.
func (p *picky) release(o gang.Observation) gang.Observation {
	p.t.Helper()
	releases := p.decide(o).releases
	if len(releases) != 2 {
		p.t.Fatalf("%d pods are released", len(releases))
	}
	o.Pods = nil
	for _, r := range releases {
		pod := pinned(r)
		pod.Spec.Priority = r.Pod.Spec.Priority
		p.track(pod)
		o.Pods = append(o.Pods, pod)
	}
	return o
}

// A gang is evicted as soon as a host can no longer take its pod, and not before.
func TestAGangThatLostAHostIsEvicted(t *testing.T) {
	edited := func(edit func(*corev1.Node)) func(*picky) {
		return func(p *picky) { p.becomes(hostOf("a1", "a", 1), edit) }
	}
	for name, tc := range map[string]struct {
		happen func(*picky)
		want   string
	}{
		"nothing happens":             {func(*picky) {}, ""},
		"a label that no pod selects": {edited(relabelled), ""},
		"a preference": {edited(func(n *corev1.Node) {
			n.Spec.Taints = []corev1.Taint{{Key: "x", Effect: corev1.TaintEffectPreferNoSchedule}}
		}), ""},
		"more capacity":                {edited(larger), ""},
		"a host of no pod is cordoned": {func(p *picky) { p.becomes(hostOf("b0", "b", 1), cordoned) }, ""},
		"cordoned":                     {edited(cordoned), "its node a1 is cordoned"},
		"tainted":                      {edited(tainted), "its node a1 is tainted broken:NoSchedule"},
		"about to be removed": {edited(func(n *corev1.Node) {
			n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: "DrainInProgress", Status: corev1.ConditionTrue})
		}), "its node a1 is about to be removed"},
		"not ready":                          {edited(unready), "its node a1 is not ready"},
		"in another rack":                    {edited(movedTo("b")), "its node a1 is no longer selected (node selector mismatch)"},
		"without GPUs":                       {edited(func(n *corev1.Node) { n.Status.Allocatable = hostOf("", "", 0).Status.Allocatable }), "its node a1 is short of gpu (0 of 1)"},
		"deleted":                            {func(p *picky) { p.s.ledger.nodeGone(hostOf("a1", "a", 1)) }, "its node a1 is gone"},
		"filled by a pod of another client":  {func(p *picky) { p.taken("a1") }, "its node a1 is short of gpu (0 of 1)"},
		"held for a pod that does not exist": {func(p *picky) { p.s.ledger.cluster.Assume("held", "a1", topology.ShapeOf(withGPU(&corev1.Pod{}))) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			p, placer, o := releasedGang(t, 1, 0)
			if p.s.requeueStuck(t.Context(), o) {
				t.Fatal("evicted at once")
			}
			tc.happen(p)
			evicted := p.s.requeueStuck(t.Context(), o)
			if evicted != (tc.want != "") {
				t.Fatalf("evicted: %v", evicted)
			}
			if !evicted {
				return
			}
			if diff := cmp.Diff([]string{"g1-work-0-1", "g1-work-0-0"}, placer.taken); diff != "" {
				t.Errorf("evicted pods, the one that lost its host first (-want +got):\n%s", diff)
			}
			if said := <-p.said.Events; !strings.Contains(said, "Requeued") || !strings.Contains(said, "g1-work-0-1 could not be bound: "+tc.want) {
				t.Errorf("said: %s", said)
			}
			if pause, _ := p.s.ledger.backoffs.of(types.NamespacedName{Namespace: "ns", Name: "g1"}, p.clock.Now()); pause.times != 1 {
				t.Errorf("its graph pauses for the %dth time", pause.times)
			}
			if len(p.s.ledger.refused.places) > 0 {
				t.Error("the host counts as refused by the scheduler")
			}
		})
	}
}

// Capacity that is lost is lost for the gang of the lowest priority on the host, and for one gang only.
func TestLostCapacityCostsTheLowestPriority(t *testing.T) {
	for _, tc := range []struct {
		first, second int32
		want          []bool
	}{
		{first: 5, second: 1, want: []bool{false, true}},
		{first: 1, second: 5, want: []bool{true, false}},
		{first: 1, second: 1, want: []bool{false, true}},
	} {
		p, placer := newPicky(t, nil), &changing{}
		p.s.providers = provider.New(provider.Options{}, provider.All{Placers: []provider.Placer{placer}})
		p.taken("b0")
		p.host("a0", "a", 5)
		one, two := p.release(asking(1, 2, tc.first)), p.release(asking(2, 2, tc.second))
		other, another := onNode("other", "a0", begin, 0), onNode("another", "a0", begin, 0)
		if displaced := p.s.ledger.podChanged(other); len(displaced) > 0 {
			t.Errorf("%d pods are displaced while there is capacity for all", len(displaced))
		}
		if displaced := p.s.ledger.podChanged(another); len(displaced) == 0 {
			t.Error("no pod is displaced")
		}
		var got []bool
		for _, o := range []gang.Observation{one, two} {
			got = append(got, p.s.requeueStuck(t.Context(), o))
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("priorities %d and %d: evicted (-want +got):\n%s", tc.first, tc.second, diff)
		}
	}
}

// A pod that is bound by the time its gang is evicted stays, and so do the others of the gang.
func TestAPodThatIsBoundMeanwhileStays(t *testing.T) {
	p, placer, o := releasedGang(t, 1, 0)
	placer.changed = []string{"g1-work-0-1"}
	p.becomes(hostOf("a1", "a", 1), cordoned)
	if p.s.requeueStuck(t.Context(), o); len(placer.taken) > 0 {
		t.Errorf("evicted: %v", placer.taken)
	}
	o.Pods[1] = o.Pods[1].DeepCopy()
	o.Pods[1].Spec.NodeName = "a1"
	p.track(o.Pods[1])
	p.pass(time.Minute)
	if p.s.requeueStuck(t.Context(), o) {
		t.Error("its gang is evicted")
	}
	if r := p.s.ledger.pods.of(string(o.Pods[1].UID)); r.requeued {
		t.Error("it counts as requeued")
	}
}

// A pod that an earlier version released by its labels may be bound to any host of its rack.
func TestAPodPinnedByLabelsLosesNoHost(t *testing.T) {
	p, _, o := releasedGang(t, 1, 0)
	for i, pod := range o.Pods {
		o.Pods[i] = pod.DeepCopy()
		o.Pods[i].Spec.Affinity = nil
		p.track(o.Pods[i])
	}
	p.becomes(hostOf("a1", "a", 1), cordoned)
	if p.s.requeueStuck(t.Context(), o) {
		t.Error("evicted at once")
	}
}

// A cache may not show a new node yet: the pod that another leader released to it is not evicted.
func TestAPodOnAnUnknownHostStays(t *testing.T) {
	p, _, o := releasedGang(t, 1, 0)
	p.s.ledger.nodeGone(hostOf("a1", "a", 1))
	if !p.s.requeueStuck(t.Context(), o) {
		t.Error("the gang of a host that is gone is not evicted")
	}
	p, _, o = releasedGang(t, 1, 0)
	o.Pods[1] = o.Pods[1].DeepCopy()
	o.Pods[1].Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].MatchFields[0].Values = []string{"new"}
	p.s.ledger.cluster.DeletePod(string(o.Pods[1].UID))
	gang.Reserve(p.s.ledger.cluster, o)
	p.track(o.Pods[1])
	if p.s.requeueStuck(t.Context(), o) {
		t.Error("the gang of a host that was never seen is evicted")
	}
}

// A pod that preempts waits for the others on its host to leave.
func TestAPodThatPreemptsLosesNoCapacity(t *testing.T) {
	p, _, o := releasedGang(t, 1, 0)
	p.taken("a1")
	o.Pods[1] = o.Pods[1].DeepCopy()
	o.Pods[1].Status.NominatedNodeName = "a1"
	p.track(o.Pods[1])
	if p.s.requeueStuck(t.Context(), o) {
		t.Error("evicted at once")
	}
}
