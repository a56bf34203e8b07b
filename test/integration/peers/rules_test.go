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
	"k8s.io/apimachinery/pkg/types"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/graph"
	"github.com/trellis-k8s/trellis/internal/provider/providertest"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
	"github.com/trellis-k8s/trellis/test/testutil/tier"
)

const placed = nvidiav1alpha1.ConditionPlaced

// rule is one thing that holds for every user under every provider (docs/placement.md). test/e2e checks the same rules, by the same names, under the
// providers whose schedulers run in a sandbox; here they are checked through the running operator under KAI and Grove, and with LeaderWorkerSets, whose
// definitions are real and whose operators are played by hand. What makes the rule hold is checked exactly: what is written for KAI and Grove, which
// sets there are, and where pods are pinned. Where a provider does not keep a rule, what says so is checked instead.
type rule struct {
	nodes            []host
	level, preferred string
	services         services
	// kai runs under KAI, and under Gates with LeaderWorkerSets: what the pods show is the same.
	kai, grove func(w *world)
}

// multinode says that a LeaderWorkerSet would make some of the pods.
func (r rule) multinode() bool {
	return slices.ContainsFunc(slices.Collect(maps.Values(r.services)), func(s *nvidiav1alpha1.ServiceSpec) bool { return s.Multinode != nil })
}

// rules are all of them.
var rules = func() map[string]rule {
	all := maps.Clone(choosing)
	maps.Copy(all, living)
	return all
}()

// tree waits until this is written for KAI; the deployment is g in it.
func (w *world) tree(want string) {
	w.t.Helper()
	if w.sets != nil {
		return
	}
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
	return w.plain(providertest.SketchKAI(readPodGroup(w.t, object)))
}

// expectNothing: nothing was written for KAI.
func (w *world) expectNothing() {
	w.t.Helper()
	if got := w.podGroupNow(); got != "" {
		w.t.Errorf("KAI got\n%s", got)
	}
}

// documented: the page on providers says this of a provider, in the item that begins so.
func (w *world) documented(row, provider, want string) {
	w.t.Helper()
	raw, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "providers.md"))
	if err != nil {
		w.t.Fatal(err)
	}
	_, item, found := strings.Cut(string(raw), "\n- **"+row+"**\n")
	if !found {
		w.t.Errorf("docs/providers.md has no item %q", row)
		return
	}
	item, _, _ = strings.Cut(item, "\n- ")
	_, says, found := strings.Cut("\n"+item, "\n  - "+provider+": ")
	says, _, _ = strings.Cut(says, "\n  - ")
	if says = strings.Join(strings.Fields(says), " "); !found || !strings.Contains(says, want) {
		w.t.Errorf("docs/providers.md says of %q under %s: %q, want %q in it", row, provider, says, want)
	}
}

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

// providers under which the rules are checked: what a deployment is annotated with, and how the rule is checked there.
var providers = map[string]struct {
	provider, workload string
	check              func(r rule) func(*world)
}{
	"KAI":                        {provider: specs.KAI.Name, check: func(r rule) func(*world) { return r.kai }},
	"Grove":                      {provider: specs.Grove.Name, check: func(r rule) func(*world) { return r.grove }},
	"Gates with LeaderWorkerSet": {provider: specs.Gates.Name, workload: specs.LeaderWorkerSet, check: func(r rule) func(*world) { return r.kai }},
}

func TestRules(t *testing.T) {
	for i, name := range slices.Sorted(maps.Keys(rules)) {
		r := rules[name]
		under := slices.DeleteFunc(slices.Sorted(maps.Keys(providers)), func(title string) bool {
			return providers[title].workload != "" && !r.multinode() // Trellis makes the pods of other services itself, as without sets
		})
		for j, title := range under {
			e := providers[title]
			t.Run(title+"/"+name, func(t *testing.T) {
				if j != i%len(under) { // the core tier has each rule under one of the providers, in turn
					tier.All(t)
				}
				t.Parallel()
				w := newWorld(t, fmt.Sprintf("%s%d%s", strings.ToLower(e.provider), i, strings.ToLower(e.workload)), r.nodes...)
				if e.workload != "" {
					w.sets = &lwsWorld{T: t, ns: watched, selector: graph.LabelGraph + "=" + w.name}
				}
				of := services{}
				for name, s := range r.services {
					of[name] = s.DeepCopy()
				}
				w.deploy(e.provider, r.level, r.preferred, of)
				e.check(r)(w)
				w.inSets()
			})
		}
	}
}

// inSets: with LeaderWorkerSets, every pod of a multinode service is a set's, and every set is its scaling group's.
func (w *world) inSets() {
	w.t.Helper()
	if w.sets == nil {
		return
	}
	sets := w.sets.objects()
	if len(sets) == 0 {
		w.t.Error("there is no LeaderWorkerSet")
	}
	for _, object := range sets {
		owner := metav1.GetControllerOf(object)
		sg := &trellisv1alpha1.ScalingGroup{}
		if err := typed.Get(w.t.Context(), types.NamespacedName{Namespace: watched, Name: owner.Name}, sg); err != nil || sg.UID != owner.UID {
			w.t.Errorf("%s is owned by %v: %v", object.GetName(), owner, err)
		}
	}
	pods, err := w.pods()
	if err != nil {
		w.t.Fatal(err)
	}
	for i := range pods {
		service := w.dgd().Spec.Services[pods[i].Labels[graph.LabelComponent]]
		if owner := metav1.GetControllerOf(&pods[i]); service.Multinode != nil && owner.Kind != "StatefulSet" {
			w.t.Errorf("%s is owned by a %s, want it made by a set", pods[i].Name, owner.Kind)
		}
	}
}
