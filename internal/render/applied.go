// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"encoding/json"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AnnotationApplied holds a hash of the label and annotation keys that Trellis has set on an object. The hash changes when Trellis no
// longer sets a key, but not when another client adds a key.
const AnnotationApplied = "trellis.dev/applied-metadata"

// MarkApplied sets AnnotationApplied. It copies the annotations, because several objects may share the map.
func MarkApplied(object metav1.Object) {
	annotations := maps.Clone(object.GetAnnotations())
	if annotations == nil {
		annotations = map[string]string{}
	}
	delete(annotations, AnnotationApplied)
	annotations[AnnotationApplied] = keysHash(object.GetLabels(), annotations)
	object.SetAnnotations(annotations)
}

func keysHash(of ...map[string]string) string {
	keys := make([][]string, len(of))
	for i := range of {
		keys[i] = slices.Sorted(maps.Keys(of[i]))
	}
	raw, err := json.Marshal(keys)
	if err != nil {
		panic("keys do not marshal: " + err.Error()) // plain data; cannot happen
	}
	return digest(raw)
}
