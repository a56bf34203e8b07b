// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package gitops

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

const root = "../.."

// scripts returns the health checks of config/gitops, by kind.
func scripts(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "config", "gitops", "argocd-cm.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var config struct{ Data map[string]string }
	if err := yaml.UnmarshalStrict(text, &config); err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for key, script := range config.Data {
		if name, is := strings.CutPrefix(key, "resource.customizations.health."); is {
			out[name[strings.Index(name, "_")+1:]] = script
		}
	}
	return out
}

const deployment, topology = "DynamoGraphDeployment", "ClusterTopology"

// Each case is the status of an object, of generation 2.
var cases = map[string]struct{ kind, status, want, message string }{
	"without a status": {deployment, `{}`, "Progressing", "not processed"},
	"an older generation": {deployment, `{observedGeneration: 1, conditions: [{type: Ready, status: "True"}]}`, "Progressing",
		"not processed"},
	"ready": {deployment, `{observedGeneration: 2, conditions: [{type: Placed, status: "True"}, {type: Ready, status: "True", message: fine}]}`,
		"Healthy", "fine"},
	"waits for capacity": {deployment, `{observedGeneration: 2, conditions: [
		{type: Placed, status: "False", reason: InsufficientCapacity, message: no rack holds it},
		{type: Ready, status: "False", reason: insufficient_capacity}]}`, "Progressing", "no rack holds it"},
	"waits for quota": {deployment, `{observedGeneration: 2, conditions: [
		{type: QuotaReserved, status: "False", reason: QuotaPending, message: no quota},
		{type: Placed, status: "False", reason: WaitingForAdmission, message: a gate}]}`, "Progressing", "no quota"},
	"never fits": {deployment, `{observedGeneration: 2, conditions: [
		{type: Placed, status: "False", reason: NeverFits, message: no rack has 6 hosts}, {type: Ready, status: "False"}]}`,
		"Degraded", "no rack has 6 hosts"},
	"invalid": {deployment, `{observedGeneration: 2, conditions: [{type: Valid, status: "False", reason: Invalid, message: a field}]}`,
		"Degraded", "a field"},
	"a prerequisite is missing": {deployment, `{observedGeneration: 2, conditions: [
		{type: PrerequisitesMet, status: "False", reason: PrerequisitesMissing, message: a claim}]}`, "Degraded", "a claim"},
	"the provider was not checked": {deployment, `{observedGeneration: 2, conditions: [
		{type: ProviderReady, status: "False", reason: ProviderNotChecked}, {type: Ready, status: "False", message: wait}]}`,
		"Progressing", "wait"},
	"the provider is not there": {deployment, `{observedGeneration: 2, conditions: [
		{type: ProviderReady, status: "False", reason: APINotServed, message: a kind}]}`, "Degraded", "a kind"},
	"an object of another owner": {deployment, `{observedGeneration: 2, conditions: [
		{type: OwnershipConflict, status: "True", message: a Service}, {type: Ready, status: "True"}]}`, "Degraded", "a Service"},
	"a conflict that has ended": {deployment, `{observedGeneration: 2, conditions: [
		{type: OwnershipConflict, status: "False"}, {type: Ready, status: "True", message: fine}]}`, "Healthy", "fine"},
	"an update that runs": {deployment, `{observedGeneration: 2, conditions: [
		{type: RolledOut, status: "False", reason: RollingOut, message: 1 of 2}, {type: Ready, status: "False"}]}`, "Progressing", "1 of 2"},
	"an update that is stuck": {deployment, `{observedGeneration: 2, conditions: [
		{type: RolledOut, status: "False", reason: ProgressDeadlineExceeded, message: stuck}]}`, "Degraded", "stuck"},
	"an update that is paused": {deployment, `{observedGeneration: 2, conditions: [
		{type: RolledOut, status: "False", reason: RolloutPaused, message: paused}, {type: Ready, status: "False"}]}`, "Suspended", "paused"},
	"an update that was aborted": {deployment, `{observedGeneration: 2, conditions: [
		{type: RolledOut, status: "False", reason: RolledBack, message: aborted}, {type: Ready, status: "True"}]}`, "Suspended", "aborted"},
	"a topology without a status": {topology, `{}`, "Progressing", "not processed"},
	"a topology whose labels are there": {topology, `{observedGeneration: 2, conditions: [{type: LevelsLabeled, status: "True"},
		{type: InUse, status: "False"}]}`, "Healthy", ""},
	"a topology without labels": {topology, `{observedGeneration: 2, conditions: [
		{type: LevelsLabeled, status: "False", message: 3 nodes}]}`, "Degraded", "3 nodes"},
	"a topology with a level left out": {topology, `{observedGeneration: 2, conditions: [
		{type: HierarchyConsistent, status: "False", message: two racks}]}`, "Degraded", "two racks"},
}

func TestHealth(t *testing.T) {
	checks := scripts(t)
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			object := map[string]any{"metadata": map[string]any{"generation": 2.0}}
			var status map[string]any
			if err := yaml.Unmarshal([]byte(c.status), &status); err != nil {
				t.Fatal(err)
			}
			if len(status) > 0 {
				object["status"] = status
			}
			got, err := Check(checks[c.kind], object)
			if err != nil {
				t.Fatal(err)
			}
			if got.Status != c.want || !strings.Contains(got.Message, c.message) {
				t.Errorf("got %+v, want %s with %q", got, c.want, c.message)
			}
		})
	}
}

// TestNamesOfHealthChecks checks that all condition types and reasons in the scripts and in the cases are documented. The tests in ./docs
// compare the documentation with the code.
func TestNamesOfHealthChecks(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "docs", "conditions.md"))
	if err != nil {
		t.Fatal(err)
	}
	known := regexp.MustCompile("`([A-Za-z_]+)`|(?m)^### (\\w+)$").FindAllStringSubmatch(string(page), -1)
	documented := func(name string) bool {
		return slices.ContainsFunc(known, func(one []string) bool { return one[1] == name || one[2] == name })
	}
	health := []string{"Progressing", "Healthy", "Degraded", "Suspended", "True", "False"}
	named := regexp.MustCompile(`"([A-Z][A-Za-z]+)"|\b([A-Za-z_]+) = true`)
	found := 0
	for kind, script := range scripts(t) {
		for _, name := range named.FindAllStringSubmatch(script, -1) {
			if name := name[1] + name[2]; !slices.Contains(health, name) {
				if found++; !documented(name) {
					t.Errorf("the check of %s names %s, which docs/conditions.md does not describe", kind, name)
				}
			}
		}
	}
	for name, c := range cases {
		for _, field := range regexp.MustCompile(`(?:type|reason): (\w+)`).FindAllStringSubmatch(c.status, -1) {
			if !documented(field[1]) {
				t.Errorf("%s: docs/conditions.md does not describe %s", name, field[1])
			}
		}
	}
	if found < 15 {
		t.Errorf("this test finds %d names only", found)
	}
}

// TestScriptsThatFail checks that a script that fails, or returns no status, returns an error.
func TestScriptsThatFail(t *testing.T) {
	for _, script := range []string{`local hs = {}`, `return {status = "Healthy"}`, `return obj.none.status`, `return os.time()`, `return {`} {
		if got, err := Check(script, map[string]any{}); err == nil {
			t.Errorf("%s: %+v", script, got)
		}
	}
}
