// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/trellis-k8s/trellis/test/testutil/manifest"
)

// Client-side kubectl apply keeps a copy of the object in an annotation, and Helm one of all objects in a Secret. The limit leaves room for what
// else is in the annotations, which may have 262,144 bytes together, and for the next fields.
func TestDefinitionsAreSmall(t *testing.T) {
	const limit = 258_000
	files, err := filepath.Glob(filepath.Join(basesDir, "*.yaml"))
	if err != nil || len(files) < 4 {
		t.Fatalf("want every definition in %s, found %v (%v)", basesDir, files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		compact, err := json.Marshal(manifest.Parse(t, string(text)))
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %d bytes as JSON", filepath.Base(file), len(compact))
		if len(compact) >= limit {
			t.Errorf("%s has %d bytes, want fewer than %d", file, len(compact), limit)
		}
	}
}
