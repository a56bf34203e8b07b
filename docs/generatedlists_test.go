// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"errors"
	"go/ast"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"

	"github.com/trellis-k8s/trellis/test/testutil/golden"
)

// generatedLists are the lists that pages have between <!-- list: NAME --> and <!-- end of list -->, by NAME.
var generatedLists = map[string]func(*testing.T) string{
	"conditions of a deployment":              deploymentConditions,
	"controllers":                             controllers,
	"rights of the operator":                  func(t *testing.T) string { return rights(t, "role.yaml", "ClusterRole") },
	"rights of the operator in its namespace": func(t *testing.T) string { return rights(t, "role.yaml", "Role") },
	"rights of users of the plugin":           func(t *testing.T) string { return rights(t, "planner_role.yaml", "ClusterRole") },
}

var listMark = regexp.MustCompile(`(?s)(<!-- list: ([a-z ]+) -->\n)(.*?)(<!-- end of list -->)`)

// TestListsAreOfTheCode: a list between marks is the one of the code. "go test ./docs -update" writes it.
func TestListsAreOfTheCode(t *testing.T) {
	used := map[string]bool{}
	for page, content := range pages(t) {
		if !listMark.MatchString(content) {
			continue
		}
		golden.Check(t, page, listMark.ReplaceAllStringFunc(content, func(marked string) string {
			found := listMark.FindStringSubmatch(marked)
			list := generatedLists[found[2]]
			if list == nil {
				t.Errorf("%s: there is no list %q", page, found[2])
				return marked
			}
			used[found[2]] = true
			return found[1] + list(t) + found[4]
		}))
	}
	for name := range generatedLists {
		if !used[name] {
			t.Errorf("no page has the list %q", name)
		}
	}
}

// wrapped breaks a text into lines of at most 100 characters; those after the first one are indented.
func wrapped(text, indent string) string {
	var out strings.Builder
	at := 0
	for _, word := range strings.Fields(text) {
		switch {
		case at == 0:
		case at+1+len(word) > 100:
			out.WriteString("\n" + indent)
			at = len(indent)
		default:
			out.WriteByte(' ')
			at++
		}
		out.WriteString(word)
		at += len(word)
	}
	return out.String() + "\n"
}

// asCode lists names as code.
func asCode(names []string) string { return "`" + strings.Join(names, "`, `") + "`" }

// deploymentConditions are the types of the conditions of a deployment, in the order of its status.
func deploymentConditions(t *testing.T) string {
	t.Helper()
	values := map[string]string{}
	for _, file := range sources(t, filepath.Join("api", "nvidia", "v1beta1")) {
		ast.Inspect(file, func(n ast.Node) bool {
			spec, is := n.(*ast.ValueSpec)
			for i := 0; is && i < len(spec.Values); i++ {
				if value, ok := text(spec.Values[i]); ok {
					values[spec.Names[i].Name] = value
				}
			}
			return true
		})
	}
	var types []string
	for _, file := range sources(t, filepath.Join("internal", "controller", "dynamographdeployment")) {
		ast.Inspect(file, func(n ast.Node) bool {
			spec, is := n.(*ast.ValueSpec)
			if !is || spec.Names[0].Name != "conditionOrder" {
				return true
			}
			for _, one := range spec.Values[0].(*ast.CompositeLit).Elts {
				types = append(types, values[one.(*ast.SelectorExpr).Sel.Name])
			}
			return true
		})
	}
	if len(types) == 0 || slices.Contains(types, "") {
		t.Fatalf("the order of conditions is not found any more: %q", types)
	}
	return wrapped(asCode(types)+".", "")
}

var namedController = regexp.MustCompile(`Named\("(\w+)"\)`)

// controllers are the names that the metrics of controller-runtime have as label.
func controllers(t *testing.T) string {
	t.Helper()
	var names []string
	for path := range sources(t, filepath.Join("internal", "controller")) {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range namedController.FindAllStringSubmatch(string(data), -1) {
			names = append(names, name[1])
		}
	}
	if !slices.Contains(names, "scalinggroup") {
		t.Fatalf("the names of controllers are not found any more: %q", names)
	}
	return wrapped(asCode(slices.Compact(sorted(names)))+".", "")
}

// rights are those of the role of a kind in a file of config/rbac, one item for each set of verbs that means the same.
func rights(t *testing.T, name, kind string) string {
	t.Helper()
	file, err := os.Open(filepath.Join(root, "config", "rbac", name))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	resources, decoder := map[string]map[string][]string{}, utilyaml.NewYAMLOrJSONDecoder(file, 4096)
	for {
		role := &rbacv1.ClusterRole{}
		if err := decoder.Decode(role); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if role.Kind == kind {
			addRights(resources, role.Rules)
		}
	}
	if len(resources) == 0 {
		t.Fatalf("config/rbac/%s has no %s", name, kind)
	}
	var out strings.Builder
	for _, verbs := range sortedKeys(resources) {
		var items []string
		for _, resource := range sortedKeys(resources[verbs]) {
			item := "`" + resource + "`"
			if only := slices.Compact(sorted(resources[verbs][resource])); len(only) > 0 {
				item += " (only " + asCode(only) + ")"
			}
			items = append(items, item)
		}
		out.WriteString(wrapped("- **"+verbs+"**: "+strings.Join(items, ", "), "  "))
	}
	return out.String()
}

// addRights adds the resources of some rules by what their verbs mean, each with the names to which the right is limited.
func addRights(to map[string]map[string][]string, rules []rbacv1.PolicyRule) {
	for _, rule := range rules {
		verbs := inPlainWords(rule.Verbs)
		for _, resource := range rule.Resources {
			name, sub, _ := strings.Cut(resource, "/")
			for _, group := range rule.APIGroups {
				full := strings.Trim(strings.TrimSuffix(name+"."+group, ".")+"/"+sub, "/")
				if to[verbs] == nil {
					to[verbs] = map[string][]string{}
				}
				to[verbs][full] = append(to[verbs][full], rule.ResourceNames...)
			}
		}
	}
}

// inPlainWords says what a set of verbs allows: to read, create, change or delete.
func inPlainWords(verbs []string) string {
	var out []string
	for _, word := range []struct {
		text  string
		verbs []string
	}{
		{"read", []string{"get", "list", "watch"}}, {"create", []string{"create"}},
		{"change", []string{"patch", "update"}}, {"delete", []string{"delete"}},
	} {
		if slices.ContainsFunc(verbs, func(verb string) bool { return slices.Contains(word.verbs, verb) }) {
			out = append(out, word.text)
		}
	}
	return strings.Join(out, ", ")
}

func sortedKeys[V any](of map[string]V) []string {
	keys := make([]string, 0, len(of))
	for key := range of {
		keys = append(keys, key)
	}
	return sorted(keys)
}

var (
	metricSpan = regexp.MustCompile("`(trellis_[a-z_]+[a-z])`")
	reasonItem = regexp.MustCompile(`(?m)^- \*\*(?:True|False), ([^*]+)\*\*`)
	reasonSpan = regexp.MustCompile("`([A-Z][A-Za-z]+|[a-z]+(?:_[a-z]+)+)`")
)

// TestDocumentedNamesAreInTheCode: pages describe metrics, and reasons of conditions and events, of the code, and no former ones.
func TestDocumentedNamesAreInTheCode(t *testing.T) {
	known, all := names(t), pages(t)
	for page, content := range all {
		if strings.HasSuffix(page, "CHANGELOG.md") {
			continue
		}
		for _, metric := range metricSpan.FindAllStringSubmatch(content, -1) {
			if known[metric[1]] == "" {
				t.Errorf("%s: the code has no metric %s", page, metric[1])
			}
		}
	}
	found := 0
	check := func(page, list string) {
		for _, reason := range reasonSpan.FindAllStringSubmatch(list, -1) {
			if found++; known[reason[1]] == "" {
				t.Errorf("%s: the code has no reason %s", page, reason[1])
			}
		}
	}
	for _, item := range reasonItem.FindAllStringSubmatch(all["conditions.md"], -1) {
		check("conditions.md", item[1])
	}
	for row := range strings.Lines(part(t, "events-and-metrics.md", "## Events")) {
		if cells := strings.Split(row, "|"); len(cells) > 3 {
			check("events-and-metrics.md", cells[2])
		}
	}
	if found < 80 {
		t.Errorf("this test finds %d reasons only", found)
	}
}
