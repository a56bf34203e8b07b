// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package external has functions for objects of other projects. Trellis has small Go types for these objects, with only the fields that
// Trellis sets or reads. All other fields belong to other clients; Trellis neither sends nor compares them.
package external

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/trellis-k8s/trellis/internal/limit"
)

// maxMessage is the maximum length, in bytes, of a text that a condition copies from the status of another project's object.
const maxMessage = 512

// Object converts a typed object to an unstructured object, which a client can send. It removes the status, which the object's controller
// writes.
func Object(typed any) (*unstructured.Unstructured, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
	if err != nil {
		return nil, fmt.Errorf("encoding %T: %w", typed, err)
	}
	delete(content, "status")
	return &unstructured.Unstructured{Object: content}, nil
}

// Read fills a typed object from an object that a client has read, and drops unknown fields.
func Read(object *unstructured.Unstructured, into any) error {
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, into); err != nil {
		return fmt.Errorf("decoding %s %s: %w", object.GetKind(), object.GetName(), err)
	}
	return nil
}

// Covers reports whether have contains every field of want, with the same content. Lists must have the same length. Covers compares
// durations and quantities by value, because admission webhooks of other projects rewrite their text. If want is a sent object and have is
// the returned object, Covers also finds fields that the server has dropped silently.
func Covers(want, have *unstructured.Unstructured) bool {
	return Missing(want, have) == ""
}

// Missing returns the path of the first field of want that is missing or different in have; "" for none.
func Missing(want, have *unstructured.Unstructured) string {
	for _, part := range []string{"metadata.labels", "metadata.annotations", "spec"} {
		path := strings.Split(part, ".")
		wanted, _, _ := unstructured.NestedFieldNoCopy(want.Object, path...)
		existing, _, _ := unstructured.NestedFieldNoCopy(have.Object, path...)
		if at := missing(part, kindOf(path[len(path)-1], anything), wanted, existing); at != "" {
			return at
		}
	}
	return ""
}

func missing(path string, kind valueKind, want, have any) string {
	switch w := want.(type) {
	case nil:
		return ""
	case map[string]any:
		h, _ := have.(map[string]any)
		for _, key := range slices.Sorted(maps.Keys(w)) {
			if at := missing(path+"."+key, kindOf(key, kind), w[key], h[key]); at != "" {
				return at
			}
		}
		return ""
	case []any:
		h, _ := have.([]any)
		if len(h) != len(w) {
			return path
		}
		for i := range w {
			if at := missing(fmt.Sprintf("%s[%d]", path, i), kind, w[i], h[i]); at != "" {
				return at
			}
		}
		return ""
	}
	if have == nil || !kind.same(fmt.Sprint(want), fmt.Sprint(have)) { // numbers may have several Go types
		return path
	}
	return ""
}

// Message trims and shortens a text of another project.
func Message(text string) string {
	return limit.Text(strings.TrimSpace(text), maxMessage)
}
