// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package external is what the packages that write objects of other projects share. Those objects have small types of our own with only the
// fields we set or read, so what is not in them is another's: it is never sent, and never compared.
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

// maxMessage bounds what is taken over from another's status into one of our conditions.
const maxMessage = 512

// Object turns one of our small types into what clients send. It has no status: its owner writes that.
func Object(typed any) (*unstructured.Unstructured, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
	if err != nil {
		return nil, fmt.Errorf("encoding %T: %w", typed, err)
	}
	delete(content, "status")
	return &unstructured.Unstructured{Object: content}, nil
}

// Read fills one of our small types from what a client read; fields we do not know are left out.
func Read(object *unstructured.Unstructured, into any) error {
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, into); err != nil {
		return fmt.Errorf("decoding %s %s: %w", object.GetKind(), object.GetName(), err)
	}
	return nil
}

// Covers reports whether have says all that want says: every field of want is in have with the same content. A list is one value.
// Durations and quantities are compared by value, since admission webhooks of their projects rewrite their text. What a server that does
// not know a field drops in silence is found by this too, by comparing what was read back.
func Covers(want, have *unstructured.Unstructured) bool {
	return Missing(want, have) == ""
}

// Missing is the path of the first field of want that have lacks or has otherwise, or "".
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
	if have == nil || !kind.same(fmt.Sprint(want), fmt.Sprint(have)) { // numbers come in several types
		return path
	}
	return ""
}

// Message bounds a text that another wrote.
func Message(text string) string {
	return limit.Text(strings.TrimSpace(text), maxMessage)
}
