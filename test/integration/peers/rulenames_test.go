// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestRulesAreThose: the table has the rules of test/e2e, no more and no fewer.
func TestRulesAreThose(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join("..", "..", "e2e", "rules_test.go"), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, decl := range file.Decls {
		table, ok := decl.(*ast.GenDecl)
		if !ok || table.Tok != token.VAR || table.Specs[0].(*ast.ValueSpec).Names[0].Name != "rules" {
			continue
		}
		for _, element := range table.Specs[0].(*ast.ValueSpec).Values[0].(*ast.CompositeLit).Elts {
			name, err := strconv.Unquote(element.(*ast.KeyValueExpr).Key.(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			names = append(names, name)
		}
	}
	slices.Sort(names)
	if diff := cmp.Diff(names, slices.Sorted(maps.Keys(rules))); diff != "" || len(names) == 0 {
		t.Errorf("(-test/e2e +here):\n%s", diff)
	}
}
