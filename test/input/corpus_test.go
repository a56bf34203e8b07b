// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package input

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// kept is an input that once showed a fault.
type kept struct {
	Kind  string          `json:"kind"`
	Path  string          `json:"path"`
	Value json.RawMessage `json:"value"`
	Was   string          `json:"was"`
}

var corpusDir = filepath.Join("testdata", "corpus")

// corpus is every input that once showed a fault.
func corpus(t *testing.T, all []*leaf) []trial {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(corpusDir, "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	var out []trial
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		k := kept{}
		if err := json.Unmarshal(text, &k); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		out = append(out, trial{find(t, all, k.Kind, k.Path), []raw{k.Value}})
	}
	return out
}

// keep an input that showed a fault.
func keep(t *testing.T, f fault) string {
	t.Helper()
	text, err := json.MarshalIndent(kept{Kind: f.kind.String(), Path: f.path, Value: f.value, Was: f.problem}, "", "  ")
	if err != nil {
		return ""
	}
	name := filepath.Join(corpusDir, fmt.Sprintf("%x.json", sha256.Sum256(append([]byte(f.leaf.String()), f.value...)))[:12]+".json")
	if _, err := os.Stat(name); err == nil {
		return ""
	}
	if err := os.WriteFile(name, append(text, '\n'), 0o600); err != nil {
		t.Error(err)
	}
	return " (kept in " + name + ")"
}

func mustJSON(value any) []byte {
	out, err := json.Marshal(value)
	if err != nil {
		panic(err) // a value of this test
	}
	return out
}
