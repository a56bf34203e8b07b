// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"fmt"
	"go/ast"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/test/testutil/hub"
)

// limits are the items of the README's list of that name, each on one line.
func limits(t *testing.T) []string {
	t.Helper()
	_, section, _ := strings.Cut(pages(t)[filepath.Join(root, "README.md")], "\n## Limits\n\n- ")
	list, _, _ := strings.Cut(section, "\n\n")
	items := strings.Split(list, "\n- ")
	for i := range items {
		items[i] = strings.Join(strings.Fields(items[i]), " ")
	}
	return items
}

// limitItem is the item of that list that begins so.
func limitItem(t *testing.T, begins string) string {
	t.Helper()
	items := limits(t)
	i := slices.IndexFunc(items, func(item string) bool { return strings.HasPrefix(item, begins) })
	if i < 0 {
		t.Fatalf("the README's Limits have no item %q", begins)
	}
	return items[i]
}

// favourable has every field that some provider ignores, where most is done about it.
const favourable = `
metadata: {annotations: {nvidia.com/kai-scheduler-queue: q, nvidia.com/volcano-queue: q, nvidia.com/grove-update-strategy: OnDelete}}
spec:
  providerOverride: {apiVersion: grove.io/v1alpha1, target: PodCliqueSet, value: {spec: {template: {topologyConstraint: {packDomain: rack}}}}}
  experimental: {kvTransferPolicy: {domain: rack, labelKey: example.com/rack}}
  services:
    Frontend: {componentType: frontend, ingress: {enabled: true, host: h, useVirtualService: true}}
    Picker: {componentType: epp, eppConfig: {config: {a: b}}}
    Worker:
      componentType: worker
      replicas: 2
      minAvailable: 2
      checkpoint: {a: b}
      gpuMemoryService: {enabled: true}
      failover: {enabled: true}
      providerOverride: {apiVersion: grove.io/v1alpha1, target: PodCliqueScalingGroupConfig, value: {topologyConstraint: {packDomain: rack}}}
      multinode:
        nodeCount: 2
      roles:
      - {name: leader, providerOverride: {apiVersion: grove.io/v1alpha1, target: PodCliqueTemplateSpec, value: {topologyConstraint: {packDomain: rack}}}}
      - {name: worker, providerOverride: {apiVersion: grove.io/v1alpha1, target: PodCliqueTemplateSpec, value: {topologyConstraint: {packDomain: rack}}}}
`

var (
	fieldOfComponent = regexp.MustCompile(`^spec\.(services\[\w+\]\.)?`)
	roleName         = regexp.MustCompile(`roles\[\w+\]`)
)

// actingOn says for each field that some provider does nothing about which providers act on it.
func actingOn(t *testing.T) map[string][]string {
	t.Helper()
	ignoring := map[string][]string{}
	for _, provider := range specs.All {
		alpha := &nvidiav1alpha1.DynamoGraphDeployment{}
		if err := yaml.UnmarshalStrict([]byte(favourable), alpha); err != nil {
			t.Fatal(err)
		}
		dgd := hub.Of(alpha)
		only, err := nvidiav1alpha1.AlphaOnlyOf(dgd)
		if err != nil {
			t.Fatal(err)
		}
		for i := range dgd.Spec.Components { // what v1alpha1 cannot say
			if e := dgd.Spec.Components[i].Experimental; e != nil {
				e.Grove = &nvidiav1beta1.GroveOptions{}
			}
		}
		for _, ignored := range render.NotActedOn(dgd, only, provider.Name) {
			path := ignored.Path.In("v1alpha1")
			field := roleName.ReplaceAllString(fieldOfComponent.ReplaceAllString(path, ""), "roles[]")
			if _, key, annotation := strings.Cut(field, "annotations["); annotation {
				field = strings.TrimSuffix(key, "]")
			}
			if !slices.Contains(ignoring[field], provider.Name) {
				ignoring[field] = append(ignoring[field], provider.Name)
			}
		}
	}
	acting := map[string][]string{}
	for field, ignores := range ignoring {
		acting[field] = nil
		for _, provider := range specs.All {
			if !slices.Contains(ignores, provider.Name) {
				acting[field] = append(acting[field], provider.Name)
			}
		}
	}
	return acting
}

// TestLimitsListWhatIsNotActedOn: the README lists the fields that nothing is done about, and those that some providers act on, and no others.
func TestLimitsListWhatIsNotActedOn(t *testing.T) {
	var never, some []string
	for field, providers := range actingOn(t) {
		if len(providers) == 0 {
			never = append(never, "`"+field+"`")
		} else {
			some = append(some, fmt.Sprintf("`%s` (%s)", field, strings.Join(providers, ", ")))
		}
	}
	got := span.FindAllString(limitItem(t, "Never acted on"), -1)
	if diff := cmp.Diff(sorted(never), sorted(got)); diff != "" {
		t.Errorf("never acted on, by the code (-) and by the README (+):\n%s", diff)
	}
	got = regexp.MustCompile("`[^`]+` \\([A-Za-z, ]+\\)").FindAllString(limitItem(t, "Acted on under some providers only"), -1)
	if diff := cmp.Diff(sorted(some), sorted(got)); diff != "" {
		t.Errorf("acted on under some providers, by the code (-) and by the README (+):\n%s", diff)
	}
}

func sorted(list []string) []string {
	out := slices.Clone(list)
	slices.Sort(out)
	return out
}

// TestLimitsListWhatIsNotFilled: fields of a deployment's status that no code names.
func TestLimitsListWhatIsNotFilled(t *testing.T) {
	named := map[string]bool{}
	for _, file := range sources(t, "internal/controller") {
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.SelectorExpr:
				named[n.Sel.Name] = true
			case *ast.KeyValueExpr:
				if key, ok := n.Key.(*ast.Ident); ok {
					named[key.Name] = true
				}
			}
			return true
		})
	}
	var idle []string
	for _, file := range sources(t, "api/nvidia/v1beta1") {
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok || !strings.HasSuffix(spec.Name.Name, "Status") || spec.Name.Name == "CheckpointStatus" {
				return true
			}
			fields, ok := spec.Type.(*ast.StructType)
			if !ok {
				return true
			}
			for _, field := range fields.Fields.List {
				for _, name := range field.Names {
					if !named[name.Name] {
						idle = append(idle, "`"+strings.ToLower(name.Name[:1])+name.Name[1:]+"`")
					}
				}
			}
			return true
		})
	}
	if diff := cmp.Diff(sorted(idle), sorted(span.FindAllString(limitItem(t, "Of the status"), -1))); diff != "" {
		t.Errorf("not filled, by the code (-) and by the README (+):\n%s", diff)
	}
}

// literals are the texts of a function, or of the constants whose names begin so.
func literals(t *testing.T, folder, function, constants string) []string {
	t.Helper()
	var out []string
	collect := func(n ast.Node) {
		ast.Inspect(n, func(n ast.Node) bool {
			if e, ok := n.(*ast.BasicLit); ok {
				if s, ok := text(e); ok {
					out = append(out, s)
				}
			}
			return true
		})
	}
	for _, file := range sources(t, folder) {
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				if n.Name.Name == function {
					collect(n)
				}
				return false
			case *ast.ValueSpec:
				if constants != "" && strings.HasPrefix(n.Names[0].Name, constants) {
					collect(n)
				}
			}
			return true
		})
	}
	if len(out) == 0 {
		t.Fatalf("%s has no %s%s any more", folder, function, constants)
	}
	return out
}

// TestLimitsListWhatIsCounted: rules of pods that are counted, and those that are not.
func TestLimitsListWhatIsCounted(t *testing.T) {
	counted, not, found := strings.Cut(limitItem(t, "Capacity is counted by"), "Not counted are")
	if !found {
		t.Fatal("the item on capacity does not say what is not counted")
	}
	states := []string{"cordoned", "about to be removed", "not ready", "reserved", "avoided", "refused by the scheduler"} // of hosts, not rules of pods
	for _, rule := range literals(t, "internal/topology", "", "Kind") {
		if !slices.Contains(states, rule) && !strings.Contains(strings.ReplaceAll(counted, "-", " "), rule) {
			t.Errorf("%q is counted, and the README does not say so", rule)
		}
	}
	if !strings.Contains(not, "device claims") {
		t.Error("device claims with alpha features are not counted, and the README does not say so")
	}
}

// inWords lists names as prose does.
func inWords(names []string) string {
	last := len(names) - 1
	if last == 0 {
		return names[0]
	}
	return strings.Join(names[:last], ", ") + " and " + names[last]
}

// TestLimitsNameWhatIsTested: providers, and the versions of Kubernetes that tests run on. hack/sandbox/peers has a test on the versions of peers.
func TestLimitsNameWhatIsTested(t *testing.T) {
	section := strings.Join(limits(t), "\n")
	module, err := os.ReadFile(filepath.Join(root, "hack", "controlplane", "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	kubernetes := regexp.MustCompile(`k8s\.io/kubernetes v(\S+)`).FindStringSubmatch(string(module))
	if kubernetes == nil {
		t.Fatal("hack/controlplane/go.mod names no Kubernetes any more")
	}
	makefile, err := os.ReadFile(filepath.Join(root, "make", "long.mk"))
	if err != nil {
		t.Fatal(err)
	}
	others := regexp.MustCompile(`(?m)^VERSIONS \?= (.+)$`).FindStringSubmatch(string(makefile))
	if others == nil {
		t.Fatal("make/long.mk names no other versions of Kubernetes any more")
	}
	want := []string{"run on " + kubernetes[1] + ";", "the core scenarios on " + inWords(strings.Fields(others[1])) + ".", "`" + specs.All[0].Name + "` is the default"}
	for _, provider := range specs.All {
		want = append(want, "`"+provider.Name+"`")
	}
	for _, text := range want {
		if !strings.Contains(section, text) {
			t.Errorf("the README's Limits lack %q", text)
		}
	}
}

// TestCommentsSayWhatIsNotActedOn: a field of the API whose comment reports it is one that no provider acts on.
func TestCommentsSayWhatIsNotActedOn(t *testing.T) {
	acting, found := map[string][]string{}, 0
	for field, providers := range actingOn(t) {
		acting[field[strings.LastIndex(field, ".")+1:]] = providers
	}
	for path, file := range sources(t, "api/nvidia") {
		ast.Inspect(file, func(n ast.Node) bool {
			field, ok := n.(*ast.Field)
			if !ok || field.Tag == nil || !strings.Contains(strings.Join(strings.Fields(field.Doc.Text()), " "), "not acted on") {
				return true
			}
			found++
			name := regexp.MustCompile(`json:"([^",]+)`).FindStringSubmatch(field.Tag.Value)
			if name != nil && len(acting[name[1]]) > 0 {
				t.Errorf("%s: the comment of %s says that it is not acted on; %v do", path, name[1], acting[name[1]])
			}
			return true
		})
	}
	if found == 0 {
		t.Error("this test finds no such comment any more")
	}
}
