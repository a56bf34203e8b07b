// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
)

// object is a JSON object. Its numbers are json.Numbers, which keep their text.
type object = map[string]any

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

// ownObject returns a copy whose keys can be changed.
func ownObject(o object) object {
	if out := maps.Clone(o); out != nil {
		return out
	}
	return object{}
}

// ownLists replaces lists of an object by copies, so that elements can be removed and added.
func ownLists(o object, keys ...string) {
	for _, key := range keys {
		if list, ok := o[key].([]any); ok {
			o[key] = slices.Clone(list)
		}
	}
}

// ownSpec returns a copy of a pod spec in which containers and volumes can be removed and added, but not changed.
func ownSpec(spec object) object {
	out := ownObject(spec)
	ownLists(out, "containers", "volumes")
	return out
}

// ownContainer returns a copy of a container whose resources, and the lists that v1alpha1 has in other fields, can be changed.
func ownContainer(container object) object {
	out := ownObject(container)
	ownLists(out, "env", "envFrom", "volumeMounts")
	if resources, ok := out["resources"]; ok {
		out["resources"] = clone(resources)
	}
	return out
}

func equal(a, b any) bool {
	switch x := a.(type) {
	case object:
		y, ok := b.(object)
		if !ok || len(x) != len(y) {
			return false
		}
		for key, value := range x {
			if other, there := y[key]; !there || !equal(value, other) {
				return false
			}
		}
		return true
	case []any:
		y, ok := b.([]any)
		return ok && slices.EqualFunc(x, y, equal)
	}
	switch b.(type) {
	case object, []any:
		return false
	}
	return a == b
}

// hash returns a hash of a tree.
func hash(value any) string { return hashOf(appendTree(nil, value)) }

func hashOf(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

// appendTree writes a tree unambiguously, several times as fast as JSON.
func appendTree(to []byte, value any) []byte {
	switch v := value.(type) {
	case object:
		to = append(to, '{')
		var few [fewKeys]string
		for _, key := range sortedInto(few[:0], v) {
			to = appendText(to, key)
			to = appendTree(to, v[key])
		}
		return append(to, '}')
	case []any:
		to = append(to, '[')
		for _, element := range v {
			to = appendTree(to, element)
			to = append(to, ',')
		}
		return append(to, ']')
	case string:
		return appendText(to, v)
	case json.Number:
		return append(append(to, '#'), v...)
	case bool:
		return strconv.AppendBool(to, v)
	}
	return append(to, '-')
}

// appendText quotes as strconv does.
func appendText(to []byte, s string) []byte {
	if !isPlain(s) {
		return strconv.AppendQuote(to, s)
	}
	to = append(to, '"')
	to = append(to, s...)
	return append(to, '"')
}

// isPlain reports whether a text needs no escapes, like most texts.
func isPlain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}

// sorted returns the keys of an object, sorted.
func sorted(o object) []string { return sortedInto(make([]string, 0, len(o)), o) }

// fewKeys is at least the number of keys of most objects, so an array of this size on the stack holds them without an allocation.
const fewKeys = 16

// sortedInto appends the keys to an empty slice, sorted.
func sortedInto(keys []string, o object) []string {
	for key := range o {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// objectAt returns the object under a key; nil if there is none.
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

// ensure returns the object under a key, and adds it if there is none.
func ensure(o object, key string) object {
	child, ok := o[key].(object)
	if !ok {
		child = object{}
		o[key] = child
	}
	return child
}

// copyKeys copies values that are not null. Both objects share the values. This is safe, because functions change only keys of objects that
// they made themselves, and parts that ownSpec, ownContainer and clone have copied.
func copyKeys(to, from object, keys ...string) {
	for _, key := range keys {
		if value, ok := from[key]; ok && value != nil {
			to[key] = value
		}
	}
}

// names returns the names of a list's elements, if each is an object with a distinct name.
func names(list []any) ([]string, bool) {
	if len(list) > 0 && nameOf(list[0]) == "" { // most lists contain texts
		return nil, false
	}
	out := make([]string, 0, len(list))
	seen := make(map[string]bool, len(list))
	for _, element := range list {
		name := nameOf(element)
		if name == "" || seen[name] {
			return nil, false
		}
		seen[name] = true
		out = append(out, name)
	}
	return out, true
}

func nameOf(element any) string {
	o, _ := element.(object)
	return textAt(o, "name")
}

func indexOf(list []any, name string) int {
	if name == "" {
		return -1
	}
	return slices.IndexFunc(list, func(element any) bool { return nameOf(element) == name })
}
