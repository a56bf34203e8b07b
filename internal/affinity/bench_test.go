// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package affinity_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/trellis-k8s/trellis/internal/affinity"
	"github.com/trellis-k8s/trellis/internal/placement"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// hall is a cluster of racks of 16 hosts with two GPUs, five pods of others on each.
func hall(hosts int) *topology.Cluster {
	c := topology.NewCluster()
	c.Binders = []topology.Binder{&affinity.Binder{}}
	for i := range hosts {
		name := fmt.Sprintf("n%05d", i)
		c.SetNode(&corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
				zone: fmt.Sprintf("z%d", i/2000), rack: fmt.Sprintf("r%d", i/16), corev1.LabelHostname: name}},
			Status: corev1.NodeStatus{
				Conditions:  []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
				Allocatable: corev1.ResourceList{gpu: resource.MustParse("2"), corev1.ResourcePods: resource.MustParse("110")},
			},
		})
		for j := range 5 {
			other := pod(fmt.Sprintf("other-%d-%d", i, j), fmt.Sprintf("other-%d", j), on(name))
			other.Spec.Containers = nil
			c.SetPod(other)
		}
	}
	return c
}

// BenchmarkPlan places a gang of 16 pods on 10,000 nodes with 50,000 pods: without rules, each in a rack of its own, in racks with a pod of others, and
// spread over the racks of a zone.
func BenchmarkPlan(b *testing.B) {
	for name, tc := range map[string]struct {
		pods     []*corev1.Pod
		required string
	}{
		"no rules":      {pods: gang(16, "x")},
		"anti-affinity": {pods: gang(16, "x", away(rack, "x"))},
		"affinity":      {pods: gang(16, "x", near(rack, "other-3"))},
		"spread":        {pods: gang(16, "x", spread(rack, "x", 1, 0)), required: "zone"},
	} {
		b.Run(name, func(b *testing.B) {
			c := hall(10_000)
			for b.Loop() {
				c.Begin()
				if r := placement.PlanGraph(c, graphOf(tc.pods, tc.required), placement.Options{}); !r.Placed() {
					b.Fatal(r.Replicas[0].Refusal.Message())
				}
				c.Rollback()
			}
		})
	}
}
