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

// The annotations for the fields that only the other version has. The Dynamo operator uses the same names and the same form: sparse JSON of
// the other version's spec or status. This package reads all data in the Dynamo operator's annotations. It keeps data that only this
// package reads under an additional key, memoryKey.
const (
	AnnotationSpec   = "nvidia.com/dgd-spec"
	AnnotationStatus = "nvidia.com/dgd-status"

	memoryKey = "trellis.dev/memory"

	// compressAbove is the size from which a memory is compressed, in bytes.
	compressAbove = 16 * 1024
	compressed    = "gzip+base64:"

	// MaxAnnotations is the API server's limit for all annotations of an object, in bytes.
	MaxAnnotations = 256 * 1024
	// maxText bounds the decompressed text of a memory, in bytes. Any object that the API server accepts has a smaller memory.
	maxText = 1024 * 1024

	// maxNodes, maxDepth and maxChanges bound the work that a memory can cause: the number of values, the depth of values and paths, and
	// the number of operations and complete fields.
	maxNodes   = 64 * 1024
	maxDepth   = 100
	maxChanges = 2048
)

// knownKeys are the fields of the specs and statuses of both versions. Other keys are skipped, because no schema has them.
// TestEveryFieldOfAMemoryIsKnown of package v1alpha1 compares them with the types.
var knownKeys = map[string]bool{
	memoryKey:     true,
	"annotations": true, "labels": true, "pvcs": true, "services": true, "components": true, "envs": true, "env": true,
	"backendFramework": true, "restart": true, "topologyConstraint": true, "priorityClassName": true, "providerOverride": true,
	"experimental": true, "observedGeneration": true, "state": true, "conditions": true, "summary": true, "checkpoints": true,
	"rollingUpdate": true, "placement": true, "engine": true,
}

// amountFields hold quantities, or objects and lists of quantities. No schema bounds the quantities in a memory, and parsing even a short
// quantity can take long. TestEveryQuantityOfAMemoryIsBounded of package v1alpha1 compares these fields with types.
var amountFields = map[string]bool{
	"size": true, "sizeLimit": true, "sharedMemorySize": true, "divisor": true, "limits": true, "requests": true, "resources": true,
	"overhead": true, "capacity": true,
}

// longExponent matches numbers with an exponent too large for any resource.
var longExponent = regexp.MustCompile(`[eE][+-]?[0-9]{3,}$`)

// memory holds the data of a converted object that only its original version can express.
type memory struct {
	// sparse is sparse JSON of the spec or status in the original version.
	sparse object
	// ops are the operations that turn the plain translation back, with sparse merged in, into the original.
	ops []op
	// hash of the converted spec or status; empty in a memory of the Dynamo operator.
	hash string
	// raw is the annotation of the original object, if another client wrote it.
	raw *string
	// placed: the object was written in v1alpha1; only this memory records that. Values for which sparse has no other field stay in
	// extraPodSpec.
	placed bool
	// bare: the v1beta1 object that became this partial v1alpha1 object had no memory.
	bare bool
	// dropped: the annotations had no space for the memory, so an object that is converted back lacks its content. See fit.
	dropped bool
}

// droppedMemory returns the text of a memory that was dropped for lack of space.
func droppedMemory(from string) string { return (&memory{dropped: true}).text(from) }

func (m *memory) empty() bool {
	return m == nil || len(m.sparse) == 0 && len(m.ops) == 0 && m.raw == nil && !m.placed && !m.bare && !m.dropped
}

// mark reports whether the memory has no content except placed or bare.
func (m *memory) mark() bool {
	return m != nil && (m.placed || m.bare) && len(m.sparse) == 0 && len(m.ops) == 0 && m.raw == nil && !m.dropped
}

// unowned completes the memory of a partial object; see partial. A partial v1beta1 object has a memory, unless it had none before its
// conversion to v1alpha1.
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

// own reports whether this package wrote the memory. The text of such a memory is never kept in raw: its content is in the converted
// object, which gets a new memory. If the text were kept, memories would nest one level deeper with each edit that alternates between the
// versions.
func (m *memory) own() bool { return m != nil && (m.hash != "" || m.dropped) }

// text returns the memory as the value of an annotation; from is the version of the memory's data.
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
	writer, _ := gzip.NewWriterLevel(&out, gzip.BestSpeed) // the level is valid, and writing to memory cannot fail
	_, _ = writer.Write(raw)
	_ = writer.Close()
	return compressed + base64.StdEncoding.EncodeToString(out.Bytes())
}

// readMemory reads a memory from the value of an annotation; from is the version of the memory's data. It returns nil for an empty value.
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

// check returns an error if a memory needs more work than any user's object can cause.
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

// checkValue checks a value at a depth; amount: it is a quantity, or contains quantities.
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
