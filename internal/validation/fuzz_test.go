// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"testing"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/api/resource"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/constraint"
	"github.com/trellis-k8s/trellis/internal/rollout"
)

// FuzzAmounts checks any texts as amounts. What is taken is a quantity, not negative, and its request is not above its limit.
func FuzzAmounts(f *testing.F) {
	for _, seed := range []string{"", "1", "0.5", "1e3", "1e-9", "-1", "1Gi", "1e2000000000", "0x1", "1 ", "+1", "1Mi1", "9223372036854775808", "0.1n", "٣"} {
		f.Add(seed, "1", "nvidia.com/gpu")
		f.Add("1", seed, "rdma/ib")
	}
	f.Fuzz(func(t *testing.T, request, limit, name string) {
		item := func(value string) *nvidiav1alpha1.ResourceItem {
			return &nvidiav1alpha1.ResourceItem{CPU: value, Memory: value, Custom: map[string]string{name: value}}
		}
		dgd := newGraph(worker(func(s *componentSpec) {
			s.Resources = &nvidiav1alpha1.Resources{Requests: item(request), Limits: item(limit)}
		}))
		if len(runRule("resources", dgd)) > 0 {
			return
		}
		var parsed [2]resource.Quantity
		for i, value := range []string{request, limit} {
			q, err := resource.ParseQuantity(value)
			if value != "" && (err != nil || q.Sign() < 0) {
				t.Fatalf("%q was taken as an amount: %v, %v", value, q, err)
			}
			parsed[i] = q
		}
		if request != "" && limit != "" && parsed[0].Cmp(parsed[1]) > 0 {
			t.Fatalf("a request of %q was taken with a limit of %q", request, limit)
		}
	})
}

// FuzzAnnotations puts any texts into the annotations that are acted on. A check says the same each time, of a deployment that stays as it was, in
// messages that can be printed and are not longer than a reader bears.
func FuzzAnnotations(f *testing.F) {
	for _, seed := range []string{"", "gb200", "topology.kubernetes.io/zone", "25%", "-1", "Recreate", "\x00", "é"} {
		f.Add(seed, seed, seed)
	}
	keys := append(constraint.Annotations(), rollout.Annotations...)
	f.Fuzz(func(t *testing.T, one, two, three string) {
		values := []string{one, two, three}
		change := func(d *deployment) {
			d.Spec.TopologyConstraint, d.Spec.Services["Worker"].TopologyConstraint = nil, nil
			for i, key := range keys {
				d.Annotations[key] = values[i%len(values)]
			}
			d.Annotations[annotationExecutorBackend] = three
		}
		dgd := written(newGraph(change))
		errs, again := Graph(dgd), Graph(dgd)
		if len(errs) != len(again) || len(GraphUpdate(dgd, written(newGraph(change)))) > 0 {
			t.Fatalf("the same deployment is judged otherwise: %v, %v", errs, again)
		}
		for _, err := range errs {
			if text := err.Error(); len(text) > 4096 || !utf8.ValidString(text) && utf8.ValidString(one+two+three) {
				t.Fatalf("a message of %d bytes: %.200q", len(text), text)
			}
		}
	})
}
