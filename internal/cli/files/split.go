// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"regexp"
	"strconv"

	"sigs.k8s.io/yaml"
)

// document is one YAML document or JSON value of a file.
type document struct {
	file string
	// line of the file at which the text begins.
	line int
	text []byte
	// json is the text as JSON.
	json []byte
}

// split splits a file into documents and converts each to JSON.
func split(file string, data []byte) ([]document, []error) {
	if trimmed := bytes.TrimSpace(data); len(trimmed) > 0 && trimmed[0] == '{' && json.Valid(firstValue(trimmed)) {
		return splitJSON(file, data)
	}
	var docs []document
	var errs []error
	for _, doc := range splitYAML(file, data) {
		converted, err := yaml.YAMLToJSONStrict(doc.text)
		switch {
		case err != nil:
			errs = append(errs, yamlError(doc, err))
		case string(converted) != "null":
			doc.json = converted
			docs = append(docs, doc)
		}
	}
	return docs, errs
}

// firstValue returns the first JSON value of a stream, empty if there is none.
func firstValue(data []byte) []byte {
	var first json.RawMessage
	_ = json.NewDecoder(bytes.NewReader(data)).Decode(&first)
	return first
}

func splitJSON(file string, data []byte) ([]document, []error) {
	var docs []document
	decoder := json.NewDecoder(bytes.NewReader(data))
	for {
		from := decoder.InputOffset()
		var value json.RawMessage
		err := decoder.Decode(&value)
		if errors.Is(err, io.EOF) {
			return docs, nil
		}
		if err != nil {
			at := decoder.InputOffset()
			var syntax *json.SyntaxError
			if errors.As(err, &syntax) {
				at = syntax.Offset
			}
			return docs, []error{&Error{File: file, Line: lineAt(data, at), Message: "not JSON: " + err.Error()}}
		}
		from += int64(len(data[from:]) - len(bytes.TrimLeft(data[from:], " \t\r\n")))
		docs = append(docs, document{file: file, line: lineAt(data, from), text: value, json: value})
	}
}

func lineAt(data []byte, offset int64) int {
	return 1 + bytes.Count(data[:min(int(offset), len(data))], []byte("\n"))
}

// splitYAML splits at lines of three dashes, as kubectl does.
func splitYAML(file string, data []byte) []document {
	var docs []document
	doc := document{file: file, line: 1}
	number := 0
	for line := range bytes.Lines(data) {
		number++
		if rest, found := bytes.CutPrefix(line, []byte("---")); found {
			if rest = bytes.TrimSpace(rest); len(rest) == 0 || rest[0] == '#' {
				docs = append(docs, doc)
				doc = document{file: file, line: number + 1}
				continue
			}
		}
		doc.text = append(doc.text, line...)
	}
	return append(docs, doc)
}

var yamlLine = regexp.MustCompile(`line (\d+): `)

// yamlError converts the YAML parser's error. The parser counts lines from the start of the document; yamlError returns the line in the
// file.
func yamlError(doc document, err error) error {
	message, line := err.Error(), doc.line
	if found := yamlLine.FindStringSubmatchIndex(message); found != nil {
		if n, convErr := strconv.Atoi(message[found[2]:found[3]]); convErr == nil {
			line += n - 1
		}
		message = message[found[1]:]
	}
	return &Error{File: doc.file, Line: line, Message: "not YAML: " + message}
}
