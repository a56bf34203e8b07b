// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"encoding/json"
	"strconv"

	"k8s.io/apimachinery/pkg/api/resource"
)

// fingerprint identifies the content of a part. It is equal for the part in the API server and for the part that a typed client writes
// back, although such a client omits zero values, and writes quantities and numbers in canonical form.
func fingerprint(value any) string {
	text, _ := appendCanonical(make([]byte, 0, 8192), value)
	return hashOf(text)
}

// appendCanonical writes a tree like appendTree, but without zero values, and with quantities in canonical form. For a zero value it writes
// nothing and returns false. A zero value in a list is written as '-'.
func appendCanonical(to []byte, value any) ([]byte, bool) {
	switch v := value.(type) {
	case object:
		return appendCanonicalObject(to, v)
	case []any:
		if len(v) == 0 {
			return to, false
		}
		to = append(to, '[')
		for _, element := range v {
			there := false
			if to, there = appendCanonical(to, element); !there {
				to = append(to, '-')
			}
			to = append(to, ',')
		}
		return append(to, ']'), true
	case string:
		if isAmount(v) {
			if quantity, err := resource.ParseQuantity(v); err == nil {
				v = quantity.String()
			}
		}
		return appendText(to, v), v != ""
	case json.Number:
		f, err := v.Float64()
		if err != nil || f == 0 {
			return to, false
		}
		return appendText(to, strconv.FormatFloat(f, 'g', -1, 64)), true
	case bool:
		return strconv.AppendBool(to, v), v
	}
	return to, false
}

func appendCanonicalObject(to []byte, o object) ([]byte, bool) {
	start := len(to)
	to = append(to, '{')
	var few [fewKeys]string
	for _, key := range sortedInto(few[:0], o) {
		before, there := len(to), false
		if to, there = appendCanonical(appendText(to, key), o[key]); !there {
			to = to[:before]
		}
	}
	if len(to) == start+1 {
		return to[:start], false
	}
	return append(to, '}'), true
}
