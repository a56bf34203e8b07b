// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package grove_test

import (
	"testing"
	"time"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/provider/grove"
	"github.com/trellis-k8s/trellis/internal/topology"
)

func TestFindStrays(t *testing.T) {
	group := func(component string, multinode bool, graph, unit string) *trellisv1alpha1.ScalingGroup {
		sg := &trellisv1alpha1.ScalingGroup{}
		sg.Spec.Component, sg.Spec.Multinode = component, multinode
		sg.Spec.Topology = &trellisv1alpha1.ResolvedTopology{
			Levels:          []trellisv1alpha1.ResolvedLevel{{Domain: "zone", Key: "z"}, {Domain: "rack", Key: "r"}},
			GraphPackDomain: graph, PackDomain: unit,
		}
		return sg
	}
	at := func(component string, replica int32, made int, path ...string) gang.PodPlace {
		return gang.PodPlace{Component: component, Replica: replica, Made: time.Unix(int64(made), 0), Domain: topology.Path(path)}
	}
	inZone := []*trellisv1alpha1.ScalingGroup{group("Deep", true, "zone", ""), group("Flat", false, "zone", "")}
	inRacks := []*trellisv1alpha1.ScalingGroup{group("Deep", true, "", "rack"), group("Flat", false, "", "rack")}
	both := []*trellisv1alpha1.ScalingGroup{group("Deep", true, "zone", "rack")}
	const (
		scaled = "; scale the component down to move them, or use another provider"
		base   = "; delete all pods of the deployment together, so that they are placed as one gang, or use another provider"
		unit   = "; delete all of its pods together, so that they are placed as one gang, or use another provider"
	)
	cases := map[string]struct {
		groups []*trellisv1alpha1.ScalingGroup
		places []gang.PodPlace
		want   grove.Strays
	}{
		"none placed":   {groups: inZone},
		"unconstrained": {nil, []gang.PodPlace{at("Deep", 0, 0, "a"), at("Deep", 1, 0, "b")}, grove.Strays{}},
		"together":      {inZone, []gang.PodPlace{at("Deep", 0, 0, "a", "r1"), at("Deep", 1, 0, "a", "r2")}, grove.Strays{}},
		"a later replica in another zone, in a rack of the same name": {
			inZone, []gang.PodPlace{at("Deep", 0, 0, "a", "r1"), at("Deep", 1, 5, "b", "r1")},
			grove.Strays{Graph: true, Message: "the deployment is in zone a, but Grove placed Deep-1 in b (1 of 2 pods)" + scaled},
		},
		"its place is not known": {inZone, []gang.PodPlace{at("Deep", 0, 0, "a", "r1"), at("Deep", 1, 5)}, grove.Strays{}},
		"several, bounded": {
			inZone, []gang.PodPlace{at("Deep", 0, 0, "a"), at("Deep", 0, 0, "a"), at("Deep", 1, 5, "b"), at("Deep", 2, 5, "c"), at("Deep", 3, 5, "d"), at("Deep", 4, 5, "e"), at("Deep", 5, 5, "f")},
			grove.Strays{Graph: true, Message: "the deployment is in zone a, but Grove placed Deep-1 in b, Deep-2 in c, Deep-3 in d, 2 more (5 of 7 pods)" + scaled},
		},
		"the recreated pod is outside, not the later replica that stayed": {
			inZone, []gang.PodPlace{at("Deep", 0, 9, "b", "r1"), at("Deep", 0, 0, "a", "r1"), at("Deep", 1, 5, "a", "r2")},
			grove.Strays{Graph: true, Message: "the deployment is in zone a, but Grove placed Deep-0 in b (1 of 3 pods)" + base},
		},
		"of as many, the last made": {
			inZone, []gang.PodPlace{at("Flat", 0, 9, "b"), at("Deep", 0, 0, "a")},
			grove.Strays{Graph: true, Message: "the deployment is in zone a, but Grove placed Flat in b (1 of 2 pods)" + base},
		},
		"the leader of the first replica in another rack": {
			inRacks, []gang.PodPlace{at("Deep", 0, 9, "a", "r2"), at("Deep", 0, 0, "a", "r1"), at("Deep", 0, 0, "a", "r1"), at("Deep", 1, 0, "a", "r2")},
			grove.Strays{Message: "Deep-0 is in rack a/r1, but Grove placed 1 of its 3 pods in a/r2" + unit},
		},
		"a single-node service in two racks": {
			inRacks, []gang.PodPlace{at("Flat", 0, 9, "a", "r2"), at("Flat", 0, 0, "a", "r1")},
			grove.Strays{Message: "Flat is in rack a/r1, but Grove placed 1 of its 2 pods in a/r2" + unit},
		},
		"replicas in racks of their own": {inRacks, []gang.PodPlace{at("Deep", 0, 0, "a", "r1"), at("Deep", 1, 0, "a", "r2")}, grove.Strays{}},
		"both": {
			both, []gang.PodPlace{at("Deep", 0, 9, "b", "r1"), at("Deep", 0, 0, "a", "r1"), at("Deep", 0, 0, "a", "r1")},
			grove.Strays{Graph: true, Message: "the deployment is in zone a, but Grove placed Deep-0 in b (1 of 3 pods)" + base + "; Deep-0 is in rack a/r1, but Grove placed 1 of its 3 pods in b/r1" + unit},
		},
	}
	for name, c := range cases {
		if got := grove.FindStrays(c.groups, c.places); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}
