// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/podlimit"
	"github.com/trellis-k8s/trellis/test/testutil/hub"
)

// sizes is a deployment of components of so many replicas and nodes; no nodes: single-node.
func sizes(components map[string][2]int32) *deployment {
	dgd := &deployment{}
	dgd.Spec.Services = map[string]*componentSpec{}
	for name, size := range components {
		spec := &componentSpec{Replicas: ptr.To(size[0])}
		if size[1] != 0 {
			spec.Multinode = &nvidiav1alpha1.MultinodeSpec{NodeCount: size[1]}
		}
		dgd.Spec.Services[name] = spec
	}
	return dgd
}

func TestPodLimit(t *testing.T) {
	const asks = "the graph asks for 10001 pods (replicas x nodeCount: b 1250 x 8, a 1 x 1), more than the 10000 that one graph may have (--max-pods-per-graph); lower replicas or nodeCount"
	type graph = map[string][2]int32
	for name, c := range map[string]struct {
		now, old graph
		limit    int64
		want     []string
	}{
		"at the limit":  {now: graph{"b": {1250, 8}}, limit: 10000},
		"one above it":  {now: graph{"a": {1, 0}, "b": {1250, 8}}, limit: 10000, want: []string{"spec.services[b].replicas: Invalid value: 1250: " + asks}},
		"another limit": {now: graph{"a": {1, 0}, "b": {1250, 8}}, limit: 10001},
		"no limit":      {now: graph{"a": {65536, 4096}}},
		"above it before, and no more than before": {now: graph{"a": {20000, 0}}, old: graph{"a": {20000, 0}}, limit: 10000},
		"above it before, scaled in":               {now: graph{"a": {19999, 0}}, old: graph{"a": {20000, 0}}, limit: 10000},
		"above it before, and more": {
			now: graph{"a": {1, 0}, "b": {1250, 8}}, old: graph{"a": {1, 0}, "b": {1249, 8}}, limit: 9000,
			want: []string{"spec.services[b].replicas: Invalid value: 1250: the graph asks for 10001 pods (replicas x nodeCount: b 1250 x 8, a 1 x 1), more than the 9000 that one graph may have (--max-pods-per-graph); lower replicas or nodeCount"},
		},
		"numbers that overflow 32 bits": {
			now: graph{"a": {65536, 0}, "b": {math.MaxInt32, math.MaxInt32}, "c": {1, 0}, "d": {1, 0}, "e": {1, 0}}, limit: 10000,
			want: []string{
				"spec.services[b].replicas: Invalid value: 2147483647: must be at most 65536; split the service into several graphs",
				"spec.services[b].multinode.nodeCount: Invalid value: 2147483647: must be at most 4096; run more replicas of fewer nodes",
				"spec.services[b].replicas: Invalid value: 2147483647: the graph asks for 4611686014132486148 pods (replicas x nodeCount: b 2147483647 x 2147483647, a 65536 x 1, c 1 x 1, 2 more), " +
					"more than the 10000 that one graph may have (--max-pods-per-graph); lower replicas or nodeCount",
			},
		},
		"too many nodes before": {now: graph{"a": {0, 5000}}, old: graph{"a": {1, 5000}}, limit: 10000},
	} {
		t.Run(name, func(t *testing.T) {
			var old *deployment
			if c.old != nil {
				old = sizes(c.old)
			}
			if diff := cmp.Diff(c.want, texts(PodLimit(hub.Of(sizes(c.now)), hub.Of(old), c.limit))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestScaleLimit(t *testing.T) {
	dgd := sizes(map[string][2]int32{"a": {100, 0}, "b": {2, 8}})
	for name, c := range map[string]struct {
		n    int32
		want []string
	}{
		"up to the limit": {n: 123},
		"above it":        {n: 124, want: []string{"spec.replicas: Invalid value: 124: the graph asks for 1092 pods (replicas x nodeCount: b 124 x 8, a 100 x 1), more than the 1084 that one graph may have (--max-pods-per-graph); lower replicas"}},
		"far above it":    {n: 1000000, want: []string{"spec.replicas: Invalid value: 1000000: must be at most 65536; split the service into several graphs"}},
	} {
		if diff := cmp.Diff(c.want, texts(ScaleLimit(hub.Of(dgd), "b", c.n, 1084))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if errs := ScaleLimit(hub.Of(sizes(map[string][2]int32{"a": {2000, 0}})), "a", 1999, 1084); errs != nil {
		t.Errorf("scaled in, still above: %v", errs)
	}
}

// A deployment that was stored beyond a bound is told which bound it is, and which components have fewer replicas.
func TestExceeded(t *testing.T) {
	const kept = "; pods that exist are kept, and none is created beyond the bound; lower replicas or nodeCount"
	short := []podlimit.Short{{Component: "a", Given: 9, Wanted: 10}, {Component: "b", Given: 0, Wanted: 1}}
	many := append(slices.Clone(short), podlimit.Short{Component: "c", Wanted: 1}, podlimit.Short{Component: "d", Wanted: 1}, podlimit.Short{Component: "e", Wanted: 1})
	const ten = "the graph asks for 12 pods (replicas x nodeCount: a 12 x 1), more than the 10 that one graph may have (--max-pods-per-graph)"
	for name, c := range map[string]struct {
		sizes map[string][2]int32
		short []podlimit.Short
		limit int64
		want  string
	}{
		"within":              {sizes: map[string][2]int32{"a": {10, 0}}, limit: 10},
		"no limit":            {sizes: map[string][2]int32{"a": {60000, 0}}},
		"two lack replicas":   {map[string][2]int32{"a": {12, 0}}, short, 10, ten + "; a has 9 of 10 replicas, b has 0 of 1 replicas" + kept},
		"many lack replicas":  {map[string][2]int32{"a": {12, 0}}, many, 10, ten + "; a has 9 of 10 replicas, b has 0 of 1 replicas, c has 0 of 1 replicas, 2 more components" + kept},
		"a bound of a field":  {map[string][2]int32{"a": {65537, 0}}, nil, 0, "spec.components[0].replicas: Invalid value: 65537: must be at most 65536; split the component into several graphs" + kept},
		"none lacks replicas": {map[string][2]int32{"a": {12, 0}}, nil, 10, ten + kept},
	} {
		if diff := cmp.Diff(c.want, Exceeded(hub.Of(sizes(c.sizes)), c.short, c.limit)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
