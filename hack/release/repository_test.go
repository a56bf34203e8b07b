// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rhysd/actionlint"
	"golang.org/x/mod/semver"
	"sigs.k8s.io/yaml"
)

const root = "../.."

func TestWorkflows(t *testing.T) {
	files, err := filepath.Glob(root + "/.github/workflows/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	linter, err := actionlint.NewLinter(io.Discard, &actionlint.LinterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	problems, err := linter.LintFiles(files, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Error(p)
	}
	uses, secret := regexp.MustCompile(`uses: *(\S+)(.*)`), regexp.MustCompile(`secrets\.(\w+)`)
	pinned := regexp.MustCompile(`^actions/[a-z-]+@[0-9a-f]{40}$`)
	files = append(files, root+"/.github/actions/setup/action.yaml")
	for _, path := range files {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(raw), "run: make vulncheck\n") && filepath.Base(path) != "action.yaml" {
			t.Errorf("%s does not look for known vulnerabilities", path)
		}
		for _, action := range uses.FindAllStringSubmatch(string(raw), -1) {
			if strings.HasPrefix(action[1], "./.github/") {
				continue
			}
			if !pinned.MatchString(action[1]) || !regexp.MustCompile(`^ # v\d+\.\d+\.\d+$`).MatchString(action[2]) {
				t.Errorf("%s: %s: want an action of GitHub's own by its commit, and its version in a comment", path, action[0])
			}
		}
		for _, s := range secret.FindAllStringSubmatch(string(raw), -1) {
			if s[1] != "GITHUB_TOKEN" {
				t.Errorf("%s needs secret %s", path, s[1])
			}
		}
	}
}

// TestWorkflowRunsWhatMakeTestLeavesOut checks that every test outside make test runs for each change or each night, unless it needs more
// than the repository.
func TestWorkflowRunsWhatMakeTestLeavesOut(t *testing.T) {
	makefile, err := os.ReadFile(root + "/make/long.mk")
	if err != nil {
		t.Fatal(err)
	}
	var workflow []byte
	for _, name := range []string{"test", "nightly"} {
		one, err := os.ReadFile(root + "/.github/workflows/" + name + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		workflow = append(workflow, one...)
	}
	elsewhere := []string{"bench-peers", "test-definitions", "test-manifests", "test-peers"}
	_, list, _ := strings.Cut(string(makefile), "define NOT_RUN\n")
	list, _, _ = strings.Cut(list, "endef")
	targets := regexp.MustCompile(`(?m)^([a-z-]+): `).FindAllStringSubmatch(list, -1)
	if len(targets) < 8 {
		t.Errorf("this test finds %d targets only", len(targets))
	}
	for _, target := range targets {
		runs := regexp.MustCompile(`(?m)^    - run: (?:sudo .* )?make ` + target[1] + `( [A-Z_]+=\S+)*$`).Match(workflow)
		if runs == slices.Contains(elsewhere, target[1]) {
			t.Errorf("make %s: run by a workflow %t, among what needs more than the repository %t", target[1], runs, !runs)
		}
	}
}

// TestWorkflowRunsWhatCIRuns checks that the workflow begins with the commands of .ci/run, in the same order.
func TestWorkflowRunsWhatCIRuns(t *testing.T) {
	script, err := os.ReadFile(root + "/.ci/run")
	if err != nil {
		t.Fatal(err)
	}
	workflow, err := os.ReadFile(root + "/.github/workflows/test.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var want, have []string
	for _, line := range regexp.MustCompile(`(?m)^(?:exec )?make (.*)$`).FindAllStringSubmatch(string(script), -1) {
		want = append(want, strings.Fields(line[1])...)
	}
	_, job, _ := strings.Cut(string(workflow), "\n  test:\n")
	job, _, _ = strings.Cut(job, "\n  all:\n")
	for _, step := range regexp.MustCompile(`(?m)^    - run: make (.*)$`).FindAllStringSubmatch(job, -1) {
		have = append(have, strings.Fields(step[1])...)
	}
	if !slices.Contains(want, "test") || !slices.Equal(want, have) {
		t.Errorf(".ci/run makes %q, the job test of the workflow %q", want, have)
	}
}

// TestWorkflowPublishesWhatPassed checks the release workflow: the publishing job needs the test workflow of the same commit, and is the
// only job with write permissions. The checkout includes the history, because make release compares the evidence of long runs with it.
func TestWorkflowPublishesWhatPassed(t *testing.T) {
	type job struct {
		Needs, Uses string
		Permissions map[string]string
		Steps       []struct{ With map[string]any }
	}
	var release, test struct {
		On          map[string]any `json:"on"`
		Permissions map[string]string
		Jobs        map[string]job
	}
	for name, into := range map[string]any{"release": &release, "test": &test} {
		raw, err := os.ReadFile(root + "/.github/workflows/" + name + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		raw = regexp.MustCompile(`(?m)^on:`).ReplaceAll(raw, []byte(`"on":`)) // YAML 1.1 reads a plain on as true
		if err := yaml.Unmarshal(raw, into); err != nil {
			t.Fatal(err)
		}
	}
	if _, callable := test.On["workflow_call"]; !callable {
		t.Error("the workflow test cannot be called by another one")
	}
	if len(release.Permissions) != 1 || release.Permissions["contents"] != "read" {
		t.Errorf("every job of the workflow release has the permissions %v", release.Permissions)
	}
	publishes := 0
	for name, job := range release.Jobs {
		if len(job.Permissions) == 0 {
			continue
		}
		publishes++
		if needed := release.Jobs[job.Needs]; needed.Uses != "./.github/workflows/test.yaml" {
			t.Errorf("the job %s publishes and does not need the tests", name)
		}
		if depth := job.Steps[0].With["fetch-depth"]; depth != 0.0 {
			t.Errorf("the job %s has a clone of depth %v, want 0, which is all", name, depth)
		}
	}
	if publishes != 1 {
		t.Errorf("%d jobs publish, want 1", publishes)
	}
}

// TestWorkflowKeepsScreenshots checks that the workflow keeps the screenshots of make test-browser, even of a failed run.
func TestWorkflowKeepsScreenshots(t *testing.T) {
	raw, err := os.ReadFile(root + "/.github/workflows/test.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var workflow struct {
		Jobs map[string]struct {
			Steps []struct {
				Uses, If string
				With     map[string]string
			}
		}
	}
	if err := yaml.Unmarshal(raw, &workflow); err != nil {
		t.Fatal(err)
	}
	for _, step := range workflow.Jobs["browser"].Steps {
		if strings.HasPrefix(step.Uses, "actions/upload-artifact@") && step.If == "always()" && step.With["path"] == "bin/map" {
			return
		}
	}
	t.Error("no step of the job browser uploads bin/map always")
}

// TestWorkflowHasTheHistory checks that the checkout includes the history: the README's tour, which make test-all runs, uses a past commit.
func TestWorkflowHasTheHistory(t *testing.T) {
	workflow, err := os.ReadFile(root + "/.github/workflows/test.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var parsed struct {
		Jobs map[string]struct {
			Steps []struct {
				Uses, Run string
				With      map[string]any
			}
		}
	}
	if err := yaml.Unmarshal(workflow, &parsed); err != nil {
		t.Fatal(err)
	}
	found := false
	for name, job := range parsed.Jobs {
		for _, step := range job.Steps {
			if step.Run != "make test-all" {
				continue
			}
			found = true
			if depth := job.Steps[0].With["fetch-depth"]; depth != 0.0 {
				t.Errorf("job %s runs make test-all with a clone of depth %v, want 0, which is all", name, depth)
			}
		}
	}
	if !found {
		t.Error("no job runs make test-all")
	}
}

// chartVersion returns the version that the repository's own manifests install.
func chartVersion(t *testing.T) string {
	t.Helper()
	raw, err := os.ReadFile(root + "/charts/trellis/Chart.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var chart struct{ AppVersion string }
	if err := yaml.Unmarshal(raw, &chart); err != nil {
		t.Fatal(err)
	}
	return chart.AppVersion
}

// TestChangelog checks the format of keepachangelog.com: Unreleased first, then versions with dates, the newest first; known sections only.
func TestChangelog(t *testing.T) {
	raw, err := os.ReadFile(root + "/CHANGELOG.md")
	if err != nil {
		t.Fatal(err)
	}
	text := string(raw)
	headings := regexp.MustCompile(`(?m)^## .*$`).FindAllString(text, -1)
	if len(headings) < 2 || headings[0] != "## [Unreleased]" {
		t.Fatalf("headings %q, want Unreleased first, then versions", headings)
	}
	dated, dates := regexp.MustCompile(`^## \[\d+\.\d+\.\d+\] - (\d{4}-\d{2}-\d{2})$`), []string{}
	for _, h := range headings[1:] {
		match := dated.FindStringSubmatch(h)
		if match == nil {
			t.Fatalf("%q: want ## [VERSION] - YYYY-MM-DD", h)
		}
		dates = append(dates, match[1])
	}
	if !slices.IsSortedFunc(dates, func(a, b string) int { return strings.Compare(b, a) }) {
		t.Errorf("dates %v, want the newest first", dates)
	}
	known := []string{"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
	for _, h := range regexp.MustCompile(`(?m)^### (.*)$`).FindAllStringSubmatch(text, -1) {
		if !slices.Contains(known, h[1]) {
			t.Errorf("section %q, want one of %v", h[1], known)
		}
	}
	r := &release{source: source{dir: root}, options: options{version: chartVersion(t)}}
	if _, err := r.notes(); err != nil {
		t.Errorf("the version of the chart cannot be released: %v", err)
	}
	if err := r.checkNamed(); err != nil {
		t.Error(err)
	}
}

// TestChangesSayWhatToDo checks that from v0.3.0 on each change of behaviour comes with the steps for the upgrade.
func TestChangesSayWhatToDo(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join(root, changelogFile))
	if err != nil {
		t.Fatal(err)
	}
	for _, version := range append([]string{"Unreleased"}, releasedIn(string(raw))...) {
		if version != "Unreleased" && semver.Compare("v"+version, "v0.3.0") < 0 {
			continue
		}
		section, _ := sectionOf(string(raw), version)
		_, changed, _ := strings.Cut("\n"+section, "\n### Changed\n")
		changed, _, _ = strings.Cut(changed, "\n### ")
		for _, change := range strings.Split("\n"+strings.TrimSpace(changed), "\n- ")[1:] {
			if !strings.Contains(strings.Join(strings.Fields(change), " "), "**What to do:** ") {
				t.Errorf("%s: a change does not say what to do: %.80s", version, change)
			}
		}
	}
}
