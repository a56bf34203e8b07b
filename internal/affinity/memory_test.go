// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package affinity_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/trellis-k8s/trellis/internal/affinity"
	"github.com/trellis-k8s/trellis/internal/placement"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// clusterWith is the nodes with some running pods.
func clusterWith(b *affinity.Binder, bound ...*corev1.Pod) *topology.Cluster {
	c := topology.NewCluster()
	c.Binders = []topology.Binder{b}
	for _, n := range nodes() {
		c.SetNode(n)
	}
	for _, p := range bound {
		c.SetPod(p)
	}
	return c
}

// Pods that share one affinity in memory have different rules when these take labels of the pods.
func TestSharedAffinity(t *testing.T) {
	labelled := func(version string) option { return func(p *corev1.Pod) { p.Labels["version"] = version } }
	first := pod("web-1", "web", on("a1-1"), labelled("1"), away(zone, "x"))
	first.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0].MatchLabelKeys = []string{"version"}
	second := pod("web-2", "web", on("b1-1"), labelled("2"))
	second.Spec.Affinity = first.Spec.Affinity
	c := clusterWith(&affinity.Binder{}, first, second)
	r := placement.PlanGraph(c, graphOf(gang(1, "x", labelled("1")), ""), placement.Options{}).Replicas[0]
	if diff := cmp.Diff([]string{"b1-1"}, planned(r)); diff != "" {
		t.Error(diff)
	}
}

// The rules of a running pod are read by the first plan that they may concern, and each pod that a plan looks at is counted.
func TestRunningRulesAreReadOnce(t *testing.T) {
	const pods = 40
	b := &affinity.Binder{}
	c := clusterWith(b)
	work := func() uint64 {
		before := c.Work()
		c.Begin()
		defer c.Rollback()
		placement.PlanGraph(c, graphOf(gang(1, "x"), ""), placement.Options{})
		return c.Work() - before
	}
	least := work()
	for i := range pods {
		c.SetPod(pod(fmt.Sprintf("web-%d", i), "web", on("a1-1"), away(zone, fmt.Sprintf("app-%d", i))))
		c.SetPod(pod(fmt.Sprintf("web-%d", i), "web", in("other"), on("a1-1"), away(zone, "x")))
	}
	for range 3 {
		if got := work() - least; got < pods {
			t.Errorf("%d pods with rules cost %d", pods, got)
		}
	}
	if b.Parsed() != pods {
		t.Errorf("%d terms were read, want those of %d pods once", b.Parsed(), pods)
	}
}
