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
func fingerprint(value any) string {
	text, _ := appendCanonical(make([]byte, 0, 8192), value)
	return hashOf(text)
}

// appendCanonical writes a tree as appendTree does, without its zero values and with each amount in one form. It writes nothing, and
// returns false, for a zero value; in a list that is an element like any other.
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
