// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package input

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// kept is an input that once showed a fault.
type kept struct {
	Kind  string          `json:"kind"`
	Path  string          `json:"path"`
	Value json.RawMessage `json:"value"`
	Was   string          `json:"was"`
}

var corpusDir = filepath.Join("testdata", "corpus")

// corpus is every input that once showed a fault, by file.
func corpus(all []*leaf) (map[string]trial, error) {
	files, err := filepath.Glob(filepath.Join(corpusDir, "*.json"))
	if err != nil {
		return nil, err
	}
	out := map[string]trial{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		k := kept{}
		if err := json.Unmarshal(text, &k); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		l := find(all, k.Kind, k.Path)
		if l == nil {
			return nil, fmt.Errorf("%s: there is no field %s %s", file, k.Kind, k.Path)
		}
		out[file] = trial{l, []raw{k.Value}}
	}
	return out, nil
}

// keep an input that showed a fault, and return where.
func keep(f fault) string {
	GinkgoHelper()
	text, err := json.MarshalIndent(kept{Kind: f.kind.String(), Path: f.path, Value: f.value, Was: f.problem}, "", "  ")
	if err != nil {
		return ""
	}
	name := filepath.Join(corpusDir, fmt.Sprintf("%x.json", sha256.Sum256(append([]byte(f.leaf.String()), f.value...)))[:12]+".json")
	if _, err := os.Stat(name); err == nil {
		return ""
	}
	Expect(os.WriteFile(name, append(text, '\n'), 0o600)).To(Succeed())
	return " (kept in " + name + ")"
}

func mustJSON(value any) []byte {
	out, err := json.Marshal(value)
	if err != nil {
		panic(err) // a value of this test
	}
	return out
}
