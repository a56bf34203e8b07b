// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package podlimit

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
)

func TestBound(t *testing.T) {
	type sizes = map[string][2]int32 // replicas and nodes of each component
	for name, c := range map[string]struct {
		wants, has sizes
		want       string
		short      []Short
		// fewerPods: bounded by smaller replicas alone.
		fewerPods bool
	}{
		"within it":                            {wants: sizes{"a": {50, 1}, "b": {10, 5}}, want: "a 50 x 1, b 10 x 5"},
		"one service":                          {wants: sizes{"a": {1000000, 1}}, want: "a 100 x 1", short: []Short{{"a", 100, 1000000}}},
		"whole replicas only":                  {wants: sizes{"a": {50, 8}}, want: "a 12 x 8", short: []Short{{"a", 12, 50}}},
		"no replica fits":                      {wants: sizes{"a": {1, 101}}, want: "a 0 x 101", short: []Short{{"a", 0, 1}}},
		"more nodes than the API allows":       {wants: sizes{"a": {1, math.MaxInt32}}, want: "a 0 x 4096", short: []Short{{"a", 0, 1}}},
		"each service gets one first":          {wants: sizes{"a": {1000, 1}, "b": {20, 10}, "c": {1, 2}}, want: "a 88 x 1, b 1 x 10, c 1 x 2", short: []Short{{"a", 88, 1000}, {"b", 1, 20}}},
		"what exists is kept":                  {wants: sizes{"a": {1000, 1}, "b": {150, 1}}, has: sizes{"b": {120, 1}}, want: "a 0 x 1, b 120 x 1", short: []Short{{"a", 0, 1000}, {"b", 120, 150}}},
		"and not beyond what is asked for":     {wants: sizes{"a": {1000, 1}, "b": {20, 1}}, has: sizes{"b": {120, 1}}, want: "a 80 x 1, b 20 x 1", short: []Short{{"a", 80, 1000}}},
		"larger replicas than there are":       {wants: sizes{"a": {10, 50}}, has: sizes{"a": {10, 4}}, want: "a 10 x 4", fewerPods: true},
		"larger ones than the API allows":      {wants: sizes{"a": {3, math.MaxInt32}}, has: sizes{"a": {2, 4}}, want: "a 2 x 4", short: []Short{{"a", 2, 3}}},
		"smaller replicas than there are":      {wants: sizes{"a": {60, 2}}, has: sizes{"a": {40, 4}}, want: "a 50 x 2", short: []Short{{"a", 50, 60}}},
		"stored with as many nodes, and begun": {wants: sizes{"a": {5, math.MaxInt32}}, has: sizes{"a": {1, math.MaxInt32}}, want: "a 1 x 2147483647", short: []Short{{"a", 1, 5}}},
		"numbers that overflow 64 bits": {
			wants: sizes{"a": {math.MaxInt32, math.MaxInt32}, "b": {math.MaxInt32, math.MaxInt32}, "c": {math.MaxInt32, math.MaxInt32}, "d": {2, 1}},
			has:   sizes{"a": {math.MaxInt32, math.MaxInt32}, "b": {math.MaxInt32, math.MaxInt32}, "c": {math.MaxInt32, math.MaxInt32}},
			want:  "a 2147483647 x 2147483647, b 2147483647 x 2147483647, c 2147483647 x 2147483647, d 0 x 1", short: []Short{{"d", 0, 2}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			dgd, groups := &nvidiav1beta1.DynamoGraphDeployment{}, map[string]*trellisv1alpha1.ScalingGroup{}
			for name, size := range c.wants {
				dgd.Spec.Components = append(dgd.Spec.Components, nvidiav1beta1.ComponentSpec{Name: name, Replicas: ptr.To(size[0])})
				if size[1] > 1 {
					dgd.Component(name).Multinode = &nvidiav1beta1.MultinodeSpec{NodeCount: size[1]}
				}
			}
			for name, size := range c.has {
				sg := &trellisv1alpha1.ScalingGroup{}
				sg.Spec.Roles = []trellisv1alpha1.Role{{Count: size[1]}}
				sg.Spec.Replicas, sg.Status.Replicas = size[0]+7, size[0]
				groups[name] = sg
			}
			before := dgd.DeepCopy()
			bounded, short := Bound(dgd, groups, 100)
			var got []string
			for _, name := range slices.Sorted(maps.Keys(c.wants)) {
				s := bounded.Component(name)
				nodes := int32(1)
				if s.Multinode != nil {
					nodes = s.Multinode.NodeCount
				}
				got = append(got, fmt.Sprintf("%s %d x %d", name, *s.Replicas, nodes))
			}
			if diff := cmp.Diff(c.want, strings.Join(got, ", ")); diff != "" {
				t.Errorf("bounded (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(c.short, short); diff != "" {
				t.Errorf("short (-want +got):\n%s", diff)
			}
			if exceeded := c.short != nil || c.fewerPods; exceeded != (bounded != dgd) {
				t.Errorf("bounded: %v, want %v", bounded != dgd, exceeded)
			}
			if diff := cmp.Diff(before, dgd); diff != "" {
				t.Errorf("the deployment itself was changed (-before +after):\n%s", diff)
			}
		})
	}
}

// A group that was not counted since its spec changed keeps what its spec says: nothing is deleted on old counts.
func TestBoundBeforeTheCount(t *testing.T) {
	sg := &trellisv1alpha1.ScalingGroup{}
	sg.Generation, sg.Spec.Replicas, sg.Spec.Roles = 2, 300, []trellisv1alpha1.Role{{Count: 1}}
	dgd := &nvidiav1beta1.DynamoGraphDeployment{}
	dgd.Spec.Components = []nvidiav1beta1.ComponentSpec{{Name: "Decode", Replicas: ptr.To[int32](1000)}}
	bounded, _ := Bound(dgd, map[string]*trellisv1alpha1.ScalingGroup{"Decode": sg}, 100)
	if got := *bounded.Component("Decode").Replicas; got != 300 {
		t.Errorf("%d replicas, want 300", got)
	}
}

func TestPods(t *testing.T) {
	component := func(replicas *int32, nodes int32) nvidiav1beta1.ComponentSpec {
		c := nvidiav1beta1.ComponentSpec{Replicas: replicas}
		if nodes >= 0 {
			c.Multinode = &nvidiav1beta1.MultinodeSpec{NodeCount: nodes}
		}
		return c
	}
	most := ptr.To[int32](math.MaxInt32)
	for name, c := range map[string]struct {
		components []nvidiav1beta1.ComponentSpec
		want       int64
	}{
		"none":                 {},
		"defaults":             {[]nvidiav1beta1.ComponentSpec{component(nil, -1), component(nil, 0)}, 3},
		"replicas times nodes": {[]nvidiav1beta1.ComponentSpec{component(ptr.To[int32](3), 4), component(ptr.To[int32](2), -1)}, 14},
		"a negative number":    {[]nvidiav1beta1.ComponentSpec{component(ptr.To[int32](-5), 4)}, 0},
		"beyond 32 bits":       {[]nvidiav1beta1.ComponentSpec{component(ptr.To[int32](65536), 65536)}, 1 << 32},
		"the largest":          {[]nvidiav1beta1.ComponentSpec{component(most, math.MaxInt32)}, math.MaxInt32 * math.MaxInt32},
		"beyond 64 bits": {[]nvidiav1beta1.ComponentSpec{
			component(most, math.MaxInt32), component(most, math.MaxInt32), component(most, math.MaxInt32),
		}, math.MaxInt64},
	} {
		dgd := &nvidiav1beta1.DynamoGraphDeployment{Spec: nvidiav1beta1.DynamoGraphDeploymentSpec{Components: c.components}}
		if got := Pods(dgd); got != c.want {
			t.Errorf("%s: %d pods, want %d", name, got, c.want)
		}
	}
}
