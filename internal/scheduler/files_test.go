// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// fileUses are the files of this package, and for each those whose functions, types, variables and constants it uses.
func fileUses(t *testing.T) map[string]map[string]string {
	paths, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	set, files := token.NewFileSet(), []*ast.File(nil)
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	// The imports are not read: only what this package defines counts.
	config := types.Config{Error: func(error) {}}
	pkg, _ := config.Check("scheduler", set, files, info)
	uses := map[string]map[string]string{}
	for ident, object := range info.Uses {
		_, isFunc := object.(*types.Func)
		if object.Pkg() != pkg || !isFunc && object.Parent() != pkg.Scope() {
			continue
		}
		from, to := set.Position(ident.Pos()).Filename, set.Position(object.Pos()).Filename
		if from != to {
			if uses[from] == nil {
				uses[from] = map[string]string{}
			}
			uses[from][to] = object.Name()
		}
	}
	return uses
}

// The files of this package can be put in an order in which each uses only those after it. Methods that are called on values from other
// packages, such as elements of a generic iterator, are not seen, since imports are not read.
func TestFilesFormNoCircle(t *testing.T) {
	uses := fileUses(t)
	if len(uses) < 30 || uses["decide.go"]["ledger.go"] == "" {
		t.Fatalf("%d files use others, and decide.go does not use ledger.go: the uses are not found", len(uses))
	}
	var path []string
	done := map[string]bool{}
	var visit func(file string)
	visit = func(file string) {
		if at := slices.Index(path, file); at >= 0 {
			circle := append(slices.Clone(path[at:]), file)
			for i := range circle[1:] {
				t.Errorf("%s uses %s of %s", circle[i], uses[circle[i]][circle[i+1]], circle[i+1])
			}
			t.FailNow()
		}
		if done[file] {
			return
		}
		path = append(path, file)
		for to := range uses[file] {
			visit(to)
		}
		path, done[file] = path[:len(path)-1], true
	}
	for file := range uses {
		visit(file)
	}
}
