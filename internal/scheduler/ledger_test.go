// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// locking are the files whose methods of the ledger take its lock, and so do the methods of rule stores.
var locking = []string{"ledgerqueries.go", "nodechanges.go", "podchanges.go", "rulestorechanges.go", "releasechanges.go", "evictionchanges.go", "freeplacechanges.go", "ledgerexpiry.go"}

// parts are the types that the ledger is made of. Their methods do not take the lock.
var parts = []string{"state", "evaluation", "refusedPlaces", "placeFreer", "domainReserver"}

// namesOf are the names that a tree mentions, those of fields and methods with their dot.
func namesOf(n ast.Node) (names []string) {
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			names = append(names, "."+n.Sel.Name)
		case *ast.Ident:
			names = append(names, n.Name)
		}
		return true
	})
	return names
}

// takesLedgersLock reports whether a function that is not the ledger's reaches for its lock.
func takesLedgersLock(body *ast.BlockStmt) (does bool) {
	ast.Inspect(body, func(n ast.Node) bool {
		if lock, ok := n.(*ast.SelectorExpr); ok && lock.Sel.Name == "mu" {
			of, ok := lock.X.(*ast.SelectorExpr)
			does = does || ok && of.Sel.Name == "ledger"
		}
		return true
	})
	return does
}

// The lock is taken in these files, by every method of the ledger there, and nowhere else; no one but the ledger takes it; and the ledger reaches neither
// queue nor API server nor writers.
func TestTheLockIsTheLedgers(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	foreign := []string{"Scheduler", "queue", "writers", "objects", "Reader", "EventRecorder", "Registry"}
	found := 0
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range file.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok {
				continue
			}
			names := namesOf(f.Body)
			of := func(types ...string) bool {
				return f.Recv != nil && slices.ContainsFunc(namesOf(f.Recv), func(name string) bool { return slices.Contains(types, name) })
			}
			part, ledgers := of(parts...), of(append(parts, "ledger", "ruleStores")...)
			locks := slices.Contains(names, ".mu") && slices.Contains(names, ".Lock")
			if want := !part && slices.Contains(locking, path); ledgers && locks != want {
				t.Errorf("%s: %s takes the lock: %v, want %v", path, f.Name.Name, locks, want)
			}
			if !ledgers {
				if takesLedgersLock(f.Body) {
					t.Errorf("%s: %s takes the ledger's lock", path, f.Name.Name)
				}
				continue
			}
			found++
			for _, name := range append(names, namesOf(f.Type)...) {
				if slices.Contains(foreign, strings.TrimPrefix(name, ".")) {
					t.Errorf("%s: %s of the ledger reaches %s", path, f.Name.Name, name)
				}
			}
		}
	}
	if found < 30 {
		t.Errorf("this test finds only %d methods of the ledger", found)
	}
}
