// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"testing"
)

// Two specs that give their worlds one name fail when they run at the same time.
func TestWorldsHaveNamesOfTheirOwn(t *testing.T) {
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	fset, names := token.NewFileSet(), map[string]token.Pos{}
	for _, name := range files {
		file, err := parser.ParseFile(fset, name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			name := worldName(n)
			if other, taken := names[name]; name != "" && taken {
				t.Errorf("%s and %s have a world named %s", fset.Position(other), fset.Position(n.Pos()), name)
			}
			if name != "" {
				names[name] = n.Pos()
			}
			return true
		})
	}
	if len(names) < 50 {
		t.Errorf("found only %d worlds", len(names))
	}
}

// worldName is the name in newWorld(ctx, "name"), a world in the shared sandbox; "" for everything else.
func worldName(n ast.Node) string {
	call, ok := n.(*ast.CallExpr)
	if !ok || len(call.Args) < 2 {
		return ""
	}
	function, ok := call.Fun.(*ast.Ident)
	name, literal := call.Args[1].(*ast.BasicLit)
	if !ok || !literal || function.Name != "newWorld" {
		return ""
	}
	return name.Value
}
