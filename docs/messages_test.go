// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"go/ast"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/trellis-k8s/trellis/test/testutil/golden"
)

// speaking are the folders whose texts users see: refusals and warnings of admission, conditions, events, what the plugin and the demo print.
var speaking = []string{
	"api/nvidia/v1beta1", "internal/field", "internal/constraint", "internal/validation", "internal/webhook", "internal/render", "internal/placement", "internal/gang", "internal/scheduler",
	"internal/replicas", "internal/quota", "internal/preflight", "internal/hierarchy", "internal/framework", "internal/controller", "internal/provider", "internal/operator",
	"internal/limit", "internal/newpod", "internal/whatif", "internal/evictions", "internal/cli", "hack/sandbox/cmd/demo",
}

// logs are functions and methods whose texts no user sees: of loggers, metrics and patterns.
var logs = []string{"Info", "Error", "V", "WithValues", "WithName", "New", "MustCompile", "NewDesc", "desc", "panic", "Is", "As"}

// TestMessages keeps every text that a user can see in one file, to be read as a unit, by folder. A change of one shows there.
func TestMessages(t *testing.T) {
	var out strings.Builder
	for _, folder := range speaking {
		byFolder := map[string]map[string]bool{}
		for path, file := range sources(t, folder) {
			name := strings.TrimPrefix(filepath.ToSlash(filepath.Dir(path)), "../")
			if byFolder[name] == nil {
				byFolder[name] = map[string]bool{}
			}
			texts(file, byFolder[name])
		}
		for _, name := range slices.Sorted(maps.Keys(byFolder)) {
			out.WriteString("# " + name + "\n")
			for _, text := range slices.Sorted(maps.Keys(byFolder[name])) {
				out.WriteString(text + "\n")
			}
			out.WriteString("\n")
		}
	}
	golden.Check(t, filepath.Join("testdata", "messages.golden"), out.String())
}

// texts collects the literals of a file that have three words or more, those that + joins as one.
func texts(file *ast.File, into map[string]bool) {
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec, *ast.Field:
			return n == nil
		case *ast.CallExpr:
			return !slices.Contains(logs, called(n))
		case ast.Expr:
			text, literal := joined(n)
			if text = strings.TrimSpace(strings.ReplaceAll(text, "\n", "\\n")); literal && len(strings.Fields(text)) >= 3 && !strings.HasPrefix(text, "<") { // those of "<" are drawn
				into[text] = true
			}
			return !literal
		}
		return true
	})
}

func called(call *ast.CallExpr) string {
	switch f := call.Fun.(type) {
	case *ast.Ident:
		return f.Name
	case *ast.SelectorExpr:
		return f.Sel.Name
	}
	return ""
}

// joined is the text of a literal or of a sum of some, with ... for what is no literal.
func joined(e ast.Expr) (text string, literal bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		if e.Kind != token.STRING {
			return "", false
		}
		text, err := strconv.Unquote(e.Value)
		return text, err == nil
	case *ast.BinaryExpr:
		if e.Op != token.ADD {
			return "", false
		}
		left, some := joined(e.X)
		right, more := joined(e.Y)
		if !some {
			left = "..."
		}
		if !more {
			right = "..."
		}
		return left + right, some || more
	case *ast.ParenExpr:
		return joined(e.X)
	}
	return "", false
}
