// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package replicas

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
	type sizes = map[string][2]int32 // replicas and nodes of each service
	for name, c := range map[string]struct {
		wants, has sizes
		want, why  string
	}{
		"within it":                            {wants: sizes{"a": {50, 1}, "b": {10, 5}}, want: "a 50 x 1, b 10 x 5"},
		"one service":                          {wants: sizes{"a": {1000000, 1}}, want: "a 100 x 1", why: "a has 100 of 1000000 replicas"},
		"whole replicas only":                  {wants: sizes{"a": {50, 8}}, want: "a 12 x 8", why: "a has 12 of 50 replicas"},
		"no replica fits":                      {wants: sizes{"a": {1, 101}}, want: "a 0 x 101", why: "a has 0 of 1 replicas"},
		"more nodes than the API allows":       {wants: sizes{"a": {1, math.MaxInt32}}, want: "a 0 x 4096", why: "a has 0 of 1 replicas"},
		"each service gets one first":          {wants: sizes{"a": {1000, 1}, "b": {20, 10}, "c": {1, 2}}, want: "a 88 x 1, b 1 x 10, c 1 x 2", why: "a has 88 of 1000 replicas, b has 1 of 20 replicas"},
		"what exists is kept":                  {wants: sizes{"a": {1000, 1}, "b": {150, 1}}, has: sizes{"b": {120, 1}}, want: "a 0 x 1, b 120 x 1", why: "a has 0 of 1000 replicas, b has 120 of 150 replicas"},
		"and not beyond what is asked for":     {wants: sizes{"a": {1000, 1}, "b": {20, 1}}, has: sizes{"b": {120, 1}}, want: "a 80 x 1, b 20 x 1", why: "a has 80 of 1000 replicas"},
		"larger replicas than there are":       {wants: sizes{"a": {10, 50}}, has: sizes{"a": {10, 4}}, want: "a 10 x 4"},
		"larger ones than the API allows":      {wants: sizes{"a": {3, math.MaxInt32}}, has: sizes{"a": {2, 4}}, want: "a 2 x 4", why: "a has 2 of 3 replicas"},
		"smaller replicas than there are":      {wants: sizes{"a": {60, 2}}, has: sizes{"a": {40, 4}}, want: "a 50 x 2", why: "a has 50 of 60 replicas"},
		"stored with as many nodes, and begun": {wants: sizes{"a": {5, math.MaxInt32}}, has: sizes{"a": {1, math.MaxInt32}}, want: "a 1 x 2147483647", why: "a has 1 of 5 replicas"},
		"numbers that overflow 64 bits": {
			wants: sizes{"a": {math.MaxInt32, math.MaxInt32}, "b": {math.MaxInt32, math.MaxInt32}, "c": {math.MaxInt32, math.MaxInt32}, "d": {2, 1}},
			has:   sizes{"a": {math.MaxInt32, math.MaxInt32}, "b": {math.MaxInt32, math.MaxInt32}, "c": {math.MaxInt32, math.MaxInt32}},
			want:  "a 2147483647 x 2147483647, b 2147483647 x 2147483647, c 2147483647 x 2147483647, d 0 x 1", why: "d has 0 of 2 replicas",
		},
	} {
		t.Run(name, func(t *testing.T) {
			dgd, groups := deployment(false, 0), map[string]*trellisv1alpha1.ScalingGroup{}
			dgd.Spec.Components = nil
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
			bounded, why := Bound(dgd, groups, 100)
			var got []string
			for _, name := range slices.Sorted(maps.Keys(c.wants)) {
				s := bounded.Component(name)
				nodes := int32(1)
				if s.Multinode != nil {
					nodes = s.Multinode.NodeCount
				}
				got = append(got, fmt.Sprintf("%s %d x %d", name, Of(s), nodes))
			}
			if diff := cmp.Diff(c.want, strings.Join(got, ", ")); diff != "" {
				t.Errorf("bounded (-want +got):\n%s", diff)
			}
			if !strings.Contains(why, c.why) || (why == "") != (bounded == dgd) {
				t.Errorf("why %q does not say %q", why, c.why)
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
	bounded, _ := Bound(deployment(false, 1000), map[string]*trellisv1alpha1.ScalingGroup{"Decode": sg}, 100)
	if got := Of(bounded.Component("Decode")); got != 300 {
		t.Errorf("%d replicas, want 300", got)
	}
}

// Of two adapters the one that scales in is carried first, and one that would exceed the limit is refused with the numbers.
func TestAdaptersWithinTheLimit(t *testing.T) {
	dgd := deployment(true, 40)
	dgd.Spec.Components = append(dgd.Spec.Components, nvidiav1beta1.ComponentSpec{Name: "Prefill", Replicas: ptr.To[int32](50), ScalingAdapter: &nvidiav1beta1.ScalingAdapter{}})
	prefill := func(n int32) nvidiav1beta1.DynamoGraphDeploymentScalingAdapter {
		a := adapterOf(dgd, n)
		a.Name, a.Spec.DGDRef.ComponentName = "g-prefill", "Prefill"
		return a
	}
	for name, c := range map[string]struct {
		decode, prefill int32
		carried         map[string]int32
		refused         string
	}{
		"both fit":               {50, 50, map[string]int32{"Decode": 50}, ""},
		"capacity is made first": {90, 10, map[string]int32{"Decode": 90, "Prefill": 10}, ""},
		"one does not fit":       {60, 51, map[string]int32{"Prefill": 51}, "Decode: spec.replicas: Invalid value: 60: the graph asks for 110 pods"},
		"more than the API does": {65537, 50, map[string]int32{}, "Decode: spec.replicas: Invalid value: 65537: must be at most 65536"},
	} {
		t.Run(name, func(t *testing.T) {
			carried, refused := ToCarry(dgd, []nvidiav1beta1.DynamoGraphDeploymentScalingAdapter{adapterOf(dgd, c.decode), prefill(c.prefill)}, 100)
			if diff := cmp.Diff(c.carried, carried); diff != "" {
				t.Errorf("carried (-want +got):\n%s", diff)
			}
			said := ""
			for service, why := range refused {
				said += service + ": " + why
			}
			if !strings.HasPrefix(said, c.refused) || (said == "") != (c.refused == "") {
				t.Errorf("refused %q, want %q", said, c.refused)
			}
		})
	}
}
