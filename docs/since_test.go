// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"sigs.k8s.io/yaml"

	"github.com/trellis-k8s/trellis/internal/operator"
	"github.com/trellis-k8s/trellis/internal/version"
)

// sections are the parts of a page from each heading of the second rank to the next one, each with what stands before the first: a note there
// is about the whole page.
func sections(page string) []string {
	parts := regexp.MustCompile(`(?m)^## `).Split(page, -1)
	out := []string{parts[0]}
	for _, part := range parts[1:] {
		out = append(out, parts[0]+part)
	}
	return out
}

// documentedNames are the flags of the operator and the annotations of Trellis that pages name.
func documentedNames(t *testing.T) []string {
	t.Helper()
	var names []string
	set := pflag.NewFlagSet("trellis-manager", pflag.ContinueOnError)
	(&operator.Options{}).AddFlags(set)
	set.VisitAll(func(f *pflag.Flag) {
		if !f.Hidden && f.Deprecated == "" {
			names = append(names, "--"+f.Name)
		}
	})
	for page, content := range pages(t) {
		if strings.HasSuffix(page, "CHANGELOG.md") || page == generated {
			continue
		}
		for _, name := range regexp.MustCompile("`(trellis\\.dev/[a-z0-9-]+)").FindAllStringSubmatch(content, -1) {
			names = append(names, name[1])
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// ofNoRelease are annotations that no release has or will have.
var ofNoRelease = []string{"trellis.dev/rollout-ask-frontends"}

// TestWhatNoReleaseHasSaysSince: flags and annotations that the release which the README installs lacks are described where it says since
// which version they are there.
func TestWhatNoReleaseHasSaysSince(t *testing.T) {
	installs := regexp.MustCompile(`/releases/download/(v[0-9.]+)\n`).FindStringSubmatch(pages(t)[filepath.Join(root, "README.md")])
	if installs == nil {
		t.Fatal("the README installs no release")
	}
	raw, err := os.ReadFile(filepath.Join(root, "test", "install", "testdata", "releases", installs[1]+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var known struct{ Flags, Annotations []string }
	if err := yaml.Unmarshal(raw, &known); err != nil {
		t.Fatal(err)
	}
	next, _, _ := strings.Cut(version.Source, "-")
	since := regexp.MustCompile(`(?i)\bsince ` + regexp.QuoteMeta(next))
	for _, name := range documentedNames(t) {
		flag, isFlag := strings.CutPrefix(name, "--")
		if isFlag && slices.Contains(known.Flags, flag) || slices.Contains(known.Annotations, name) || slices.Contains(ofNoRelease, name) {
			continue
		}
		noted, where := false, ""
		for page, content := range pages(t) {
			if strings.HasSuffix(page, "CHANGELOG.md") || page == generated {
				continue
			}
			for _, section := range sections(content) {
				if regexp.MustCompile(regexp.QuoteMeta(name) + `\b[^-]`).MatchString(section) {
					where = page
					noted = noted || since.MatchString(section)
				}
			}
		}
		if !noted && where != "" {
			t.Errorf("%s is not in %s, and no section that names it says \"since %s\"; one is in %s", name, installs[1], next, where)
		}
	}
}
