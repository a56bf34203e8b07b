// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/topology"
	"github.com/trellis-k8s/trellis/test/testutil/smallworld"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

// Two pods with affinity to each other, one over zones and one over hosts. On two hosts of a zone, the second would be left once the first
// is bound.
var _ = DescribeTable("A gang whose pods lead each other", Serial,
	func(ctx SpecContext, first string) {
		w := smallworld.World{
			Required: topology.NoLevel,
			Nodes:    []*corev1.Node{host("n0", "1"), host("n1", "1"), host("n2", "2")},
			Gang:     []*corev1.Pod{near("over-hosts", corev1.LabelHostname), near("over-zones", corev1.LabelTopologyZone)},
		}
		accept(&w)
		found, plan := planOn(ctx, &w)
		releases := releasesOf(ctx, plan)
		slices.SortFunc(releases, func(a, b gang.Release) int {
			return strings.Compare(strings.TrimPrefix(a.Pod.Name, first), strings.TrimPrefix(b.Pod.Name, first))
		})
		release(ctx, releases)
		bound(ctx, found, plan)
	},
	Entry("is bound when the one over hosts comes first", SpecTimeout(suite.Timeout()), "over-hosts"),
	Entry("is bound when the one over zones comes first", SpecTimeout(suite.Timeout()), "over-zones"),
)

// host is a node of one zone that takes so many pods.
func host(name, pods string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name, corev1.LabelTopologyZone: "z1"}},
		Status: corev1.NodeStatus{
			Conditions:  []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
			Allocatable: corev1.ResourceList{corev1.ResourcePods: resource.MustParse(pods)},
		},
	}
}

// near is a pod with affinity to pods like itself.
func near(name, key string) *corev1.Pod {
	like := map[string]string{"app": "x"}
	term := corev1.PodAffinityTerm{TopologyKey: key, LabelSelector: &metav1.LabelSelector{MatchLabels: like}}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Labels: like},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{{}},
			Affinity: &corev1.Affinity{PodAffinity: &corev1.PodAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{term}}},
		},
	}
}
