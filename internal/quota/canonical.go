// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// canonical returns a stable text of a pod's spec: JSON with sorted keys and without empty values. Versions of client-go differ in the
// order of fields and in marshalling empty values, but names that contain a hash of the spec must not differ.
func canonical(spec corev1.PodSpec) string {
	text, err := json.Marshal(spec)
	var tree any
	if err == nil {
		err = json.Unmarshal(text, &tree)
	}
	if err == nil {
		text, err = json.Marshal(withoutEmpty(tree))
	}
	if err != nil {
		panic(fmt.Sprintf("a pod's spec cannot be written: %v", err)) // it was read from the API
	}
	return string(text)
}

// withoutEmpty removes null and empty values from objects, at any depth. It returns nil if nothing is left. It keeps all numbers and
// booleans.
func withoutEmpty(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for key := range v {
			if v[key] = withoutEmpty(v[key]); v[key] == nil {
				delete(v, key)
			}
		}
		if len(v) == 0 {
			return nil
		}
	case []any:
		for i := range v {
			v[i] = withoutEmpty(v[i])
		}
		if len(v) == 0 {
			return nil
		}
	case string:
		if v == "" {
			return nil
		}
	}
	return value
}
