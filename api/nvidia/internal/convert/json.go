// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"bytes"
	"encoding/json"

	"github.com/go-json-experiment/json/jsontext"
)

// decode reads the first value of a text. encoding/json would do, but takes three times as long. As there, of two values of one key the last
// counts, and bytes that are no text are replaced.
func decode(raw []byte) (any, error) {
	return readValue(jsontext.NewDecoder(bytes.NewBuffer(raw), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)))
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

// encode writes what decode read, which cannot fail.
func encode(value any) []byte { return appendJSON(make([]byte, 0, 16<<10), value) }

// appendJSON writes a tree with its keys in order. encoding/json would do, but finds out the type of each value by reflection.
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
