// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
)

// The annotations that hold what the other version alone can say. Their names and their form, sparse JSON of the other version's spec or
// status, are those of the Dynamo operator, whose objects are read with all they hold. What only this package reads is under one more key,
// memoryKey.
const (
	AnnotationSpec   = "nvidia.com/dgd-spec"
	AnnotationStatus = "nvidia.com/dgd-status"

	memoryKey = "trellis.dev/memory"

	// compressAbove is the size in bytes from which a memory is compressed.
	compressAbove = 16 * 1024
	compressed    = "gzip+base64:"

	// MaxAnnotations is the size in bytes of all annotations of an object that the API server takes.
	MaxAnnotations = 256 * 1024
	// maxText bounds the text of a memory in bytes, decompressed: what can be written as one object of the API server compresses to less.
	maxText = 1024 * 1024

	// maxNodes, maxDepth and maxChanges bound the work that a memory can cause: its values, the levels of its values and paths, and its
	// operations and whole fields.
	maxNodes   = 64 * 1024
	maxDepth   = 100
	maxChanges = 2048
)

// knownKeys are the fields of the specs and the statuses of both versions. Others are skipped: no schema has them.
// TestEveryFieldOfAMemoryIsKnown of package v1alpha1 compares them with the types.
var knownKeys = map[string]bool{
	memoryKey:     true,
	"annotations": true, "labels": true, "pvcs": true, "services": true, "components": true, "envs": true, "env": true,
	"backendFramework": true, "restart": true, "topologyConstraint": true, "priorityClassName": true, "providerOverride": true,
	"experimental": true, "observedGeneration": true, "state": true, "conditions": true, "summary": true, "checkpoints": true,
	"rollingUpdate": true, "placement": true, "engine": true,
}

// amountFields hold quantities, or objects and lists of them. Their parsing costs more than their length, and of what is remembered no
// schema bounds it. TestEveryQuantityOfAMemoryIsBounded of package v1alpha1 compares them with the types.
var amountFields = map[string]bool{
	"size": true, "sizeLimit": true, "sharedMemorySize": true, "divisor": true, "limits": true, "requests": true, "resources": true,
	"overhead": true, "capacity": true,
}

// longExponent is that of a number which no resource can have.
var longExponent = regexp.MustCompile(`[eE][+-]?[0-9]{3,}$`)

// memory is what a converted object remembers of the version it came from.
type memory struct {
	// sparse JSON of the spec or status in that version.
	sparse object
	// ops make the plain translation back, with sparse merged in, into what was there.
	ops []op
	// hash of the spec or status that the memory was made for; empty in a memory of the Dynamo operator.
	hash string
	// raw is the annotation that the original object had, if another client wrote it.
	raw *string
	// placed: the object was written in v1alpha1, and only this memory records that. Values that have no place in the memory stay in
	// extraPodSpec.
	placed bool
	// bare: the object had no memory in v1beta1, of which this partial one in v1alpha1 was made.
	bare bool
	// dropped: the annotations had no room for the memory, so an object that is converted back lacks what it held. See fit.
	dropped bool
}

// droppedMemory is the text of a memory that there was no room for.
func droppedMemory(from string) string { return (&memory{dropped: true}).text(from) }

func (m *memory) empty() bool {
	return m == nil || len(m.sparse) == 0 && len(m.ops) == 0 && m.raw == nil && !m.placed && !m.bare && !m.dropped
}

// mark reports whether the memory holds nothing but that the object had a memory, or none.
func (m *memory) mark() bool {
	return m != nil && (m.placed || m.bare) && len(m.sparse) == 0 && len(m.ops) == 0 && m.raw == nil && !m.dropped
}

// unowned completes the memory of a partial object: in v1beta1 it has one, unless it had none there before it was converted to v1alpha1.
func (m *memory) unowned(to string, before *memory, annotated bool, result object) {
	switch {
	case to == Alpha && !annotated:
		m.bare = true
	case to == Beta && m.empty() && (before == nil || !before.bare):
		m.placed = true
	default:
		return
	}
	m.hash = fingerprint(result)
}

// own reports whether this package wrote the memory. Such a memory is never kept as the text of an annotation: its content is part of the
// converted object, which is remembered again. Kept, it would nest one level deeper with each edit in turn.
func (m *memory) own() bool { return m != nil && (m.hash != "" || m.dropped) }

// text of the annotation; from is the version that is remembered.
func (m *memory) text(from string) string {
	if m.empty() {
		return ""
	}
	own := object{"from": from, "hash": m.hash}
	if len(m.ops) > 0 {
		own["ops"] = opsToJSON(m.ops)
	}
	if m.raw != nil {
		own["raw"] = *m.raw
	}
	if m.placed {
		own["placed"] = true
	}
	if m.bare {
		own["bare"] = true
	}
	if m.dropped {
		own["dropped"] = true
	}
	tree := object{memoryKey: own}
	for key, value := range m.sparse {
		tree[key] = value
	}
	raw := encode(tree)
	if len(raw) <= compressAbove {
		return string(raw)
	}
	var out bytes.Buffer
	writer, _ := gzip.NewWriterLevel(&out, gzip.BestSpeed) // a valid level is no error, and neither is writing to memory
	_, _ = writer.Write(raw)
	_ = writer.Close()
	return compressed + base64.StdEncoding.EncodeToString(out.Bytes())
}

// readMemory reads an annotation that should remember the version from.
func readMemory(text, from string) (*memory, error) {
	m, err := parseMemory(text, from)
	if m == nil || err != nil {
		return nil, err
	}
	if err := m.check(); err != nil {
		return nil, err
	}
	return m, nil
}

func parseMemory(text, from string) (*memory, error) {
	if text == "" {
		return nil, nil
	}
	if len(text) > MaxAnnotations {
		return nil, fmt.Errorf("is longer than %d bytes", MaxAnnotations)
	}
	raw := []byte(text)
	if packed, ok := strings.CutPrefix(text, compressed); ok {
		var err error
		if raw, err = unpack(packed); err != nil {
			return nil, err
		}
	}
	if err := measure(raw); err != nil {
		return nil, err
	}
	sparse, err := decodeKnown(raw)
	if err != nil {
		return nil, err
	}
	m := &memory{sparse: sparse}
	own, ok := sparse[memoryKey].(object)
	delete(sparse, memoryKey)
	if !ok {
		return m, nil
	}
	if version := textAt(own, "from"); version != from {
		return nil, fmt.Errorf("remembers %q, want %q", version, from)
	}
	m.hash = textAt(own, "hash")
	m.ops = opsFromJSON(listAt(own, "ops"))
	if raw, ok := own["raw"].(string); ok {
		m.raw = &raw
	}
	m.placed, m.bare, m.dropped = trueAt(own, "placed"), trueAt(own, "bare"), trueAt(own, "dropped")
	return m, nil
}

// check explains why a memory asks for more work than what users write can need.
func (m *memory) check() error {
	if changes := len(m.ops) + len(additions(m.sparse)); changes > maxChanges {
		return fmt.Errorf("holds %d changes, of which %d are allowed", changes, maxChanges)
	}
	if err := checkValue(m.sparse, 0, false); err != nil {
		return err
	}
	for i := range m.ops {
		path := m.ops[i].path
		if err := checkValue(m.ops[i].value, len(path), slices.ContainsFunc(path, isAmountField)); err != nil {
			return err
		}
	}
	return nil
}

func isAmountField(key string) bool { return amountFields[key] }

// checkValue at a depth; amount: it is, or holds, quantities.
func checkValue(value any, depth int, amount bool) error {
	if depth > maxDepth {
		return fmt.Errorf("is nested deeper than %d levels", maxDepth)
	}
	switch v := value.(type) {
	case object:
		for key, child := range v {
			if err := checkValue(child, depth+1, amount || amountFields[key]); err != nil {
				return err
			}
		}
	case []any:
		for _, child := range v {
			if err := checkValue(child, depth+1, amount); err != nil {
				return err
			}
		}
	case string:
		return checkAmount(v, amount)
	case json.Number:
		return checkAmount(string(v), amount)
	}
	return nil
}

func checkAmount(text string, amount bool) error {
	if amount && (len(text) > 256 || longExponent.MatchString(text)) {
		return fmt.Errorf("holds a quantity that no resource can have, %.40q", text)
	}
	return nil
}

func unpack(packed string) ([]byte, error) {
	reader, err := gzip.NewReader(base64.NewDecoder(base64.StdEncoding, strings.NewReader(packed)))
	if err != nil {
		return nil, fmt.Errorf("cannot be decompressed: %w", err)
	}
	raw, err := io.ReadAll(io.LimitReader(reader, maxText+1))
	if err != nil {
		return nil, fmt.Errorf("cannot be decompressed: %w", err)
	}
	return raw, nil
}
