// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
)

// object is a JSON object. Numbers in it are json.Numbers, so that they keep their text.
type object = map[string]any

func decode(raw []byte) (any, error) {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	var value any
	err := decoder.Decode(&value)
	return value, err
}

// encode writes what decode read, which cannot fail.
func encode(value any) []byte {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(value)
	return bytes.TrimRight(out.Bytes(), "\n")
}

func clone(value any) any {
	switch v := value.(type) {
	case object:
		out := make(object, len(v))
		for key, child := range v {
			out[key] = clone(child)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, child := range v {
			out[i] = clone(child)
		}
		return out
	}
	return value
}

func equal(a, b any) bool { return reflect.DeepEqual(a, b) }

func hash(value any) string {
	sum := sha256.Sum256(encode(value))
	return hex.EncodeToString(sum[:8])
}

func sorted(o object) []string { return slices.Sorted(maps.Keys(o)) }

// objectAt is the object under a key, or an empty one that is not there.
func objectAt(o object, key string) object {
	child, _ := o[key].(object)
	return child
}

func textAt(o object, key string) string {
	text, _ := o[key].(string)
	return text
}

func listAt(o object, key string) []any {
	list, _ := o[key].([]any)
	return list
}

func trueAt(o object, key string) bool {
	b, _ := o[key].(bool)
	return b
}

// ensure returns the object under a key, made if it is not there.
func ensure(o object, key string) object {
	child, ok := o[key].(object)
	if !ok {
		child = object{}
		o[key] = child
	}
	return child
}

// copyKeys copies what is there and not null.
func copyKeys(to, from object, keys ...string) {
	for _, key := range keys {
		if value, ok := from[key]; ok && value != nil {
			to[key] = clone(value)
		}
	}
}

// names of a list's elements, if each is an object with a name of its own.
func names(list []any) ([]string, bool) {
	out := make([]string, 0, len(list))
	seen := make(map[string]bool, len(list))
	for _, element := range list {
		o, _ := element.(object)
		name := textAt(o, "name")
		if name == "" || seen[name] {
			return nil, false
		}
		seen[name] = true
		out = append(out, name)
	}
	return out, true
}

func indexOf(list []any, name string) int {
	return slices.IndexFunc(list, func(element any) bool {
		o, ok := element.(object)
		return ok && textAt(o, "name") == name && name != ""
	})
}
