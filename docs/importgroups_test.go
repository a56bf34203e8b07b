// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// groupOf is where an import stands: the standard library first, then other modules, then ours.
func groupOf(path string) int {
	first, _, _ := strings.Cut(path, "/")
	switch {
	case strings.HasPrefix(path, "github.com/trellis-k8s/trellis"):
		return 2
	case strings.Contains(first, "."):
		return 1
	}
	return 0
}

// The linter refuses other groups of imports too, minutes later: one block for each, with a blank line between them.
func TestImportsAreGrouped(t *testing.T) {
	seen := 0
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() && slices.Contains([]string{"bin", "dist", ".git"}, entry.Name()) {
			return fs.SkipDir
		}
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil || strings.Contains(string(text), "DO NOT EDIT") {
			return err
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, path, text, parser.ImportsOnly|parser.ParseComments)
		if err != nil {
			return err
		}
		seen++
		for i, spec := range file.Imports {
			if i == 0 || spec.Doc != nil {
				continue
			}
			before, now := set.Position(file.Imports[i-1].End()).Line, set.Position(spec.Pos()).Line
			name, _ := strconv.Unquote(spec.Path.Value)
			last, _ := strconv.Unquote(file.Imports[i-1].Path.Value)
			if from, to := groupOf(last), groupOf(name); from > to || from < to != (now-before > 1) {
				t.Errorf("%s:%d: the import of %s after %s is in the wrong group, or a blank line is missing or too much", path, now, name, last)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if seen < 500 {
		t.Errorf("only %d files were looked at", seen)
	}
}
