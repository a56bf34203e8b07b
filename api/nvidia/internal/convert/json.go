// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"
)

// decode reads the first value of a text, in a third of the time of encoding/json. Like encoding/json, it uses the last value of a
// duplicate key, and replaces invalid UTF-8.
func decode(raw []byte) (any, error) {
	return readValue(jsontext.NewDecoder(bytes.NewBuffer(raw), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)))
}

// ownLevels is the depth in a memory at which the value of an operation starts.
const ownLevels = 4

// measure returns an error for a text with more than maxNodes values, maxDepth+ownLevels levels or maxText bytes. It scans the text once,
// and builds no tree. For text that is not JSON, the result is undefined.
func measure(raw []byte) error {
	if len(raw) > maxText {
		return fmt.Errorf("decompresses to more than %d bytes", maxText)
	}
	nodes, depth, quoted := 1, 0, false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			nodes, depth = nodes+1, depth+1
		case c == '}' || c == ']':
			depth--
		case c == ',':
			nodes++
		}
		if nodes > maxNodes {
			return fmt.Errorf("holds more than %d values", maxNodes)
		}
		if depth > maxDepth+ownLevels {
			return fmt.Errorf("is nested deeper than %d levels", maxDepth)
		}
	}
	return nil
}

// decodeKnown reads the members of an object that are in knownKeys, and checks that the other members are JSON.
func decodeKnown(raw []byte) (object, error) {
	from := jsontext.NewDecoder(bytes.NewBuffer(raw), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if from.PeekKind() != '{' {
		if _, err := from.ReadValue(); err != nil {
			return nil, fmt.Errorf("is not JSON: %w", err)
		}
		return nil, errors.New("is not a JSON object")
	}
	out := object{}
	_, err := from.ReadToken()
	for err == nil && from.PeekKind() != '}' {
		var token jsontext.Token
		if token, err = from.ReadToken(); err != nil {
			break
		}
		key := token.String()
		if !knownKeys[key] {
			err = from.SkipValue()
			continue
		}
		out[key], err = readValue(from)
	}
	if err == nil {
		_, err = from.ReadToken()
	}
	if err != nil {
		return nil, fmt.Errorf("is not JSON: %w", err)
	}
	return out, nil
}

func readValue(from *jsontext.Decoder) (any, error) {
	token, err := from.ReadToken()
	if err != nil {
		return nil, err
	}
	switch token.Kind() {
	case '{':
		return readMembers(from)
	case '[':
		return readElements(from)
	case '"':
		return token.String(), nil
	case '0':
		return json.Number(token.String()), nil
	case 't', 'f':
		return token.Bool(), nil
	}
	return nil, nil //nolint:nilnil // null
}

func readMembers(from *jsontext.Decoder) (any, error) {
	out := object{}
	for from.PeekKind() != '}' {
		token, err := from.ReadToken()
		if err != nil {
			return nil, err
		}
		key := token.String()
		if out[key], err = readValue(from); err != nil {
			return nil, err
		}
	}
	_, err := from.ReadToken()
	return out, err
}

func readElements(from *jsontext.Decoder) (any, error) {
	out := []any{}
	for from.PeekKind() != ']' {
		element, err := readValue(from)
		if err != nil {
			return nil, err
		}
		out = append(out, element)
	}
	_, err := from.ReadToken()
	return out, err
}

// encode writes a tree that decode has returned, so it cannot fail.
func encode(value any) []byte { return appendJSON(make([]byte, 0, 16<<10), value) }

// appendJSON writes a tree with sorted keys. Unlike encoding/json it needs no reflection.
func appendJSON(to []byte, value any) []byte {
	switch v := value.(type) {
	case object:
		to = append(to, '{')
		var few [fewKeys]string
		for i, key := range sortedInto(few[:0], v) {
			if i > 0 {
				to = append(to, ',')
			}
			to = append(appendJSONText(to, key), ':')
			to = appendJSON(to, v[key])
		}
		return append(to, '}')
	case []any:
		to = append(to, '[')
		for i, element := range v {
			if i > 0 {
				to = append(to, ',')
			}
			to = appendJSON(to, element)
		}
		return append(to, ']')
	case string:
		return appendJSONText(to, v)
	}
	return append(to, marshal(value)...)
}

func appendJSONText(to []byte, s string) []byte {
	if !isPlain(s) {
		return append(to, marshal(s)...)
	}
	to = append(to, '"')
	to = append(to, s...)
	return append(to, '"')
}

func marshal(value any) []byte {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(value)
	return bytes.TrimRight(out.Bytes(), "\n")
}
