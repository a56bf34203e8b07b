// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"encoding/json"
	"strconv"

	"k8s.io/apimachinery/pkg/api/resource"
)

// fingerprint identifies what a part says. It is the same for the part as the API server holds it and as a typed client writes it back, who
// leaves out zero values and writes quantities and numbers in their canonical form.
func fingerprint(value any) string { return hash(canonical(value)) }

// canonical leaves out every zero value and writes each amount in one form. It returns nil for a zero value.
func canonical(value any) any {
	switch v := value.(type) {
	case object:
		out := make(object, len(v))
		for key, child := range v {
			if child = canonical(child); child != nil {
				out[key] = child
			}
		}
		if len(out) > 0 {
			return out
		}
	case []any:
		out := make([]any, 0, len(v))
		for _, child := range v {
			out = append(out, canonical(child))
		}
		if len(out) > 0 {
			return out
		}
	case string:
		if isAmount(v) {
			if quantity, err := resource.ParseQuantity(v); err == nil {
				return quantity.String()
			}
		}
		if v != "" {
			return v
		}
	case json.Number:
		if f, err := v.Float64(); err == nil && f != 0 {
			return strconv.FormatFloat(f, 'g', -1, 64)
		}
	case bool:
		if v {
			return v
		}
	}
	return nil
}
