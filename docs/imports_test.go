// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trellis-k8s/trellis/test/testutil/golden"
)

const modulePath = "github.com/trellis-k8s/trellis/"

// importsOf are the packages of the operator and the plugin, each with those of them that it imports.
func importsOf(t *testing.T) map[string][]string {
	t.Helper()
	imports := map[string][]string{}
	for _, folder := range []string{"api", "cmd", "internal"} {
		err := filepath.WalkDir(filepath.Join(root, folder), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
			if err != nil {
				return err
			}
			name, err := filepath.Rel(root, filepath.Dir(path))
			if err != nil {
				return err
			}
			name = filepath.ToSlash(name)
			if _, known := imports[name]; !known {
				imports[name] = nil
			}
			for _, spec := range file.Imports {
				if imported, ours := strings.CutPrefix(strings.Trim(spec.Path.Value, `"`), modulePath); ours {
					imports[name] = append(imports[name], imported)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return imports
}

// layersOf puts each package into the layer above the highest that it imports; those that import none are the first.
func layersOf(imports map[string][]string) [][]string {
	layer := map[string]int{}
	var at func(name string) int
	at = func(name string) int {
		if n, known := layer[name]; known {
			return n
		}
		n := 0
		for _, imported := range imports[name] {
			n = max(n, at(imported)+1)
		}
		layer[name] = n
		return n
	}
	var layers [][]string
	for name := range imports {
		n := at(name)
		for len(layers) <= n {
			layers = append(layers, nil)
		}
		layers[n] = append(layers[n], strings.TrimPrefix(name, "internal/"))
	}
	return layers
}

// drawLayers draws the highest layer first, in lines of at most 98 characters.
func drawLayers(layers [][]string) string {
	var b strings.Builder
	for i, names := range slices.Backward(layers) {
		slices.Sort(names)
		line := fmt.Sprintf("%2d ", i+1)
		for _, name := range names {
			if len(line)+2+len(name) > 98 {
				b.WriteString(line + "\n")
				line = "   "
			}
			line += "  " + name
		}
		b.WriteString(line + "\n")
	}
	return b.String()
}

// TestLayersAreAsDrawn: the layers of docs/dev/architecture.md are those of the imports. An import that moves a package to another layer fails here: it is
// either a mistake, or drawn with -update.
func TestLayersAreAsDrawn(t *testing.T) {
	const begin, end = "<!-- layers -->\n```\n", "```\n"
	page, err := os.ReadFile("dev/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(page), begin)
	_, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		t.Fatalf("dev/architecture.md has no diagram behind %q", begin)
	}
	golden.Check(t, "dev/architecture.md", before+begin+drawLayers(layersOf(importsOf(t)))+end+after)
}
