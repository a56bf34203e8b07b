// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Error is an error in a file.
type Error struct {
	File string
	Line int
	// Object is the object with the error, e.g. "Node a-1", and Field is the path of a field in this object. Both may be empty.
	Object, Field string
	Message       string
}

// Error implements error: FILE:LINE: OBJECT: FIELD: MESSAGE.
func (e *Error) Error() string {
	parts := []string{fmt.Sprintf("%s:%d", e.File, e.Line)}
	for _, part := range []string{e.Object, e.Field, e.Message} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	return strings.Join(parts, ": ")
}

// Source is the position of an object in a file.
type Source struct {
	doc document
	// item is the path of the object in the document: empty, or items[3].
	item string
}

// At returns the error for a field of the object.
func (s Source) At(object, field, message string) *Error {
	return &Error{File: s.doc.file, Line: s.Line(field), Object: object, Field: field, Message: message}
}

// String returns FILE:LINE.
func (s Source) String() string { return fmt.Sprintf("%s:%d", s.doc.file, s.Line("")) }

// Line returns the line of a field of the object, or of the longest existing part of its path. Paths have the form
// spec.services[A].replicas or spec.services.A.envs[0].
func (s Source) Line(field string) int {
	var root yaml.Node
	if err := yaml.Unmarshal(s.doc.text, &root); err != nil || len(root.Content) == 0 {
		return s.doc.line
	}
	path := s.item
	if field != "" && path != "" {
		path += "."
	}
	return s.doc.line + lineOf(root.Content[0], path+field) - 1
}

// lineOf returns the line of the node at a path, or at the longest existing part of the path.
func lineOf(node *yaml.Node, path string) int {
	line := node.Line
	for path != "" {
		child, at, rest := step(node, strings.TrimLeft(path, ".["))
		if child == nil {
			break
		}
		node, line, path = child, at, rest
	}
	return line
}

// step returns the child node for the beginning of a path: the item with this index or name, or the value of the longest matching key. line
// is the line of the item or of the key.
func step(node *yaml.Node, path string) (child *yaml.Node, line int, rest string) {
	switch node.Kind {
	case yaml.AliasNode:
		return step(node.Alias, path)
	case yaml.SequenceNode:
		key, after, _ := strings.Cut(path, "]")
		if i, err := strconv.Atoi(key); err == nil && i >= 0 && i < len(node.Content) {
			return node.Content[i], node.Content[i].Line, after
		}
		for _, item := range node.Content { // lists of named objects may be addressed by name
			if named(item, key) {
				return item, item.Line, after
			}
		}
	case yaml.MappingNode:
		longest := -1
		for i := 0; i+1 < len(node.Content); i += 2 {
			key := node.Content[i].Value
			after, found := strings.CutPrefix(strings.TrimPrefix(path, `"`), key)
			if !found || len(key) <= longest || after != "" && !strings.ContainsRune(`.["]`, rune(after[0])) {
				continue
			}
			longest = len(key)
			child, line, rest = node.Content[i+1], node.Content[i].Line, strings.TrimLeft(after, `"]`)
		}
	}
	return child, line, rest
}

// culprit returns the path of the field that prevents the decoding of a document. It tries each field, the deepest first, and returns the
// first field without which decoding succeeds or fails with a different error. The errors of the decoders are not sufficient: they contain
// no path through maps, and no path at all for quantities.
func culprit(value any, fails func() string) string {
	first := fails()
	path, _ := search(value, fails, first)
	return path
}

func search(value any, fails func() string, first string) (path string, found bool) {
	try := func(key string, child any, set func(any)) (string, bool) {
		if deeper, found := search(child, fails, first); found {
			if !strings.HasPrefix(deeper, "[") {
				deeper = "." + deeper
			}
			return key + deeper, true
		}
		set(nil)
		changed := fails() != first
		set(child)
		return key, changed
	}
	switch value := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(value)) {
			if path, found := try(key, value[key], func(v any) { value[key] = v }); found {
				return path, true
			}
		}
	case []any:
		for i := range value {
			if path, found := try("["+strconv.Itoa(i)+"]", value[i], func(v any) { value[i] = v }); found {
				return path, true
			}
		}
	}
	return "", false
}

func named(node *yaml.Node, name string) bool {
	for i := 0; node.Kind == yaml.MappingNode && i+1 < len(node.Content); i += 2 {
		if node.Content[i].Value == "name" {
			return node.Content[i+1].Value == name
		}
	}
	return false
}
