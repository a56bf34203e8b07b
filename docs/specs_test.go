// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"go/ast"
	"slices"
	"strings"
)

// ginkgoNodes are the functions whose first argument is the text of a spec, or of a container or table of specs.
var ginkgoNodes = []string{"Describe", "Context", "When", "It", "Specify", "DescribeTable", "DescribeTableSubtree", "Entry"}

// specTexts are the texts of the specs, containers and tables in a file, and of the entries of tables.
func specTexts(file *ast.File) []string {
	var out []string
	add := func(e ast.Expr) {
		if value, ok := text(e); ok {
			out = append(out, value)
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || len(call.Args) == 0 {
			return true
		}
		switch f := call.Fun.(type) {
		case *ast.Ident:
			if slices.Contains(ginkgoNodes, f.Name) {
				add(call.Args[0])
			}
		case *ast.SelectorExpr: // suite.Entries(map[string]T{"text": ...})
			if cases, ok := call.Args[0].(*ast.CompositeLit); ok && f.Sel.Name == "Entries" {
				for _, one := range cases.Elts {
					if pair, ok := one.(*ast.KeyValueExpr); ok {
						add(pair.Key)
					}
				}
			}
		}
		return true
	})
	return out
}

// mention of a test in a page: a Go function, or the text of a spec.
type mention struct {
	name   string
	folder string // that is named before it in its item of a list; "" where there is none
}

// mentions are the tests that a page names: functions as code, `TestX`, and specs by their text in quotes, which may go over several lines.
func mentions(page string) []mention {
	page = fence.ReplaceAllString(page, "")
	var out []mention
	for _, at := range codeOrQuote.FindAllStringSubmatchIndex(page, -1) {
		folder := folderBefore(page[:at[0]])
		switch {
		case at[2] >= 0:
			out = append(out, mention{page[at[2]:at[3]], folder})
		case at[4] >= 0:
			out = append(out, mention{strings.Join(strings.Fields(page[at[4]:at[5]]), " "), folder})
		}
	}
	return out
}
