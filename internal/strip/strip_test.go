// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package strip

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
)

var long = strings.Repeat("x", MaxBytes)

func TestAnnotations(t *testing.T) {
	for name, c := range map[string]struct{ all, want map[string]string }{
		"none": {nil, nil},
		"only those that are read": {
			map[string]string{"trellis.dev/gang": "a", "dynamo.nvidia.com/b": "b", "pod-group-name": "c", "example.com/d": "d", "e": "e", "nottrellis.dev/f": "f"},
			map[string]string{"trellis.dev/gang": "a", "dynamo.nvidia.com/b": "b", "pod-group-name": "c"},
		},
		"within the bound":        {map[string]string{"trellis.dev/gang": "a", "trellis.dev/long": long}, map[string]string{"trellis.dev/gang": "a"}},
		"one whole":               {map[string]string{"nvidia.com/whole": long, "trellis.dev/gang": "a"}, map[string]string{"nvidia.com/whole": long, "trellis.dev/gang": "a"}},
		"what kubectl has stored": {map[string]string{corev1.LastAppliedConfigAnnotation: "{}"}, nil},
	} {
		if diff := cmp.Diff(c.want, Annotations(c.all, "nvidia.com/whole")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestObject(t *testing.T) {
	for name, c := range map[string]struct {
		all, want map[string]string
		leftOut   bool
	}{
		"few":                       {map[string]string{"example.com/a": "a"}, map[string]string{"example.com/a": "a"}, false},
		"what kubectl applied last": {map[string]string{"example.com/a": "a", corev1.LastAppliedConfigAnnotation: long}, map[string]string{"example.com/a": "a"}, false},
		"more than the bound": {
			map[string]string{"example.com/a": "a", "example.com/b": long, "trellis.dev/gang": "longer than a"},
			map[string]string{"example.com/a": "a", "trellis.dev/gang": "longer than a", AnnotationLeftOut: "annotations"}, true,
		},
	} {
		got, err := Object(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Annotations: c.all, ManagedFields: []metav1.ManagedFieldsEntry{{}}}})
		if err != nil {
			t.Fatal(err)
		}
		service := got.(*corev1.Service)
		if diff := cmp.Diff(c.want, service.Annotations); diff != "" || LeftOut(service) != c.leftOut || service.ManagedFields != nil {
			t.Errorf("%s: left out %v, managed fields %v (-want +got):\n%s", name, LeftOut(service), service.ManagedFields, diff)
		}
	}
}

// Whatever a tenant writes, the bound holds, and labels of Trellis are the last to go.
func TestBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := map[string]string{}
		for i := range rapid.IntRange(0, 40).Draw(t, "entries") {
			domain := rapid.SampledFrom([]string{"trellis.dev/", "example.com/", ""}).Draw(t, "domain")
			all[fmt.Sprint(domain, i)] = strings.Repeat("v", rapid.IntRange(0, MaxBytes/8).Draw(t, "length"))
		}
		annotations, labels := Annotations(all), Labels(all)
		if size(annotations) > MaxBytes || size(labels) > MaxBytes {
			t.Fatalf("kept are %d bytes of annotations and %d of labels", size(annotations), size(labels))
		}
		if size(all) <= MaxBytes && len(labels) != len(all) {
			t.Fatalf("%d of %d labels are kept within the bound", len(labels), len(all))
		}
		for key := range annotations {
			if _, kept := labels[key]; !kept {
				t.Fatalf("label %s is left out for others", key)
			}
		}
	})
}

func TestOwned(t *testing.T) {
	o := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{"a": long}, Annotations: map[string]string{"a": long}}}
	o.OwnerReferences = append(o.OwnerReferences, metav1.OwnerReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "d"})
	for i := range 1000 {
		o.OwnerReferences = append(o.OwnerReferences, metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: fmt.Sprint(i)})
	}
	got, err := Owned(o)
	if err != nil {
		t.Fatal(err)
	}
	want := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "a", OwnerReferences: o.OwnerReferences[1 : 1+MaxOwners]}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
