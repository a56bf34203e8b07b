// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/engine/peer/peertest"
	"github.com/trellis-k8s/trellis/internal/graph"
)

const placed = nvidiav1alpha1.ConditionPlaced

// rule is one thing that holds for every user under every engine (design §4). test/e2e tells the same rules, by the same names, under the
// engines whose schedulers run in a sandbox; here they are told through the running operator under KAI and Grove, whose definitions are
// real and whose operators are played by hand. What makes the rule hold is checked exactly: what KAI and Grove are told, and where pods
// are pinned. Where an engine does not keep a rule, what says so is checked instead.
type rule struct {
	nodes            []host
	level, preferred string
	services         services
	kai, grove       func(w *world)
}

// rules are all of them.
var rules = func() map[string]rule {
	all := maps.Clone(choosing)
	maps.Copy(all, living)
	return all
}()

// tree waits until KAI is told this; the deployment is g in it.
func (w *world) tree(want string) {
	w.t.Helper()
	w.until("the PodGroup is\n"+want, func() error {
		if got := w.podGroupNow(); got != strings.TrimSpace(want) {
			return fmt.Errorf("it is\n%s", got)
		}
		return nil
	})
}

// podGroupNow is "" when there is none.
func (w *world) podGroupNow() string {
	w.t.Helper()
	object, err := client.Resource(resources["PodGroup"]).Namespace(watched).Get(w.t.Context(), w.name, metav1.GetOptions{})
	if err != nil {
		return ""
	}
	return w.plain(peertest.SketchKAI(readPodGroup(w.t, object)))
}

// untold: KAI has not been told of the deployment.
func (w *world) untold() {
	w.t.Helper()
	if got := w.podGroupNow(); got != "" {
		w.t.Errorf("KAI is told of\n%s", got)
	}
}

// documented: the page on engines says this of an engine, in the row that begins so.
func (w *world) documented(row, engine, want string) {
	w.t.Helper()
	raw, err := os.ReadFile(filepath.Join("..", "..", "docs", "engines.md"))
	if err != nil {
		w.t.Fatal(err)
	}
	column := -1
	for line := range strings.Lines(string(raw)) {
		cells := strings.Split(line, "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		if at := slices.Index(cells, engine); at > 0 && len(cells) > 6 {
			column = at
		}
		if len(cells) > 6 && column > 0 && cells[1] == row {
			if !strings.Contains(cells[column], want) {
				w.t.Errorf("docs/engines.md says of %q under %s: %q, want %q in it", row, engine, cells[column], want)
			}
			return
		}
	}
	w.t.Errorf("docs/engines.md has no row %q", row)
}

// TestRulesAreThose: the table has the rules of test/e2e, no more and no fewer.
func TestRulesAreThose(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join("..", "e2e", "rules_test.go"), nil, 0)
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

func TestRules(t *testing.T) {
	for i, name := range slices.Sorted(maps.Keys(rules)) {
		r := rules[name]
		for engine, tell := range map[string]func(*world){graph.EngineKAI: r.kai, graph.EngineGrove: r.grove} {
			t.Run(engine+"/"+name, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, fmt.Sprintf("%s%d", strings.ToLower(engine), i), r.nodes...)
				of := services{}
				for name, s := range r.services {
					of[name] = s.DeepCopy()
				}
				w.deploy(engine, r.level, r.preferred, of)
				tell(w)
			})
		}
	}
}
