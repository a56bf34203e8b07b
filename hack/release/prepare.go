// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/mod/semver"
)

const changelogFile = "CHANGELOG.md"

// mentions are patterns of places where files of the repository name its version; N.N.N stands for the version. Versions of other projects
// in pages match none of the patterns.
//
// The source, the definitions, the manifests and the chart name the version of the commit: a release, or a development version. Pages name
// the last release, which users can install.
var mentions = []struct {
	files, pattern string
	page           bool
}{
	{"internal/version/source.go", `^const Source = "vN.N.N"$`, false},
	{"config/crd/bases/*.yaml", definition, false},
	{"charts/trellis/files/crds/*.yaml", definition, false},
	{"charts/trellis/Chart.yaml", `^version: N.N.N$`, false},
	{"charts/trellis/Chart.yaml", `^appVersion: vN.N.N$`, false},
	{"config/manager/kustomization.yaml", `^ +newTag: vN.N.N$`, false},
	{"README.md", inPages, true},
	{"docs/*.md", inPages, true},
	{"docs/dev/*.md", inPages, true},
	{"charts/trellis/README.md", inPages, true},
}

const definition = `^    trellis\.dev/version: vN.N.N$`

const inPages = `\bgit checkout vN.N.N\b|\b[Ww]hat vN.N.N lacks|` + // of a clone
	`trellis-k8s/trellis/releases/download/vN.N.N(?:/|$)` + // an address
	`|\btrellis-N.N.N\.tgz|\bkubectl-trellis_vN.N.N_|\btrellis-manager_vN.N.N_` + // files
	`|\btrellis-manager:vN.N.N\b` + // the image
	`|\bVERSION=vN.N.N\b|^(?:Client|Operator): +vN.N.N ` // commands and their output

// development is the suffix of the version of an unreleased commit.
const development = "-dev"

const numbers = `(\d+\.\d+\.\d+(?:-dev)?)`

// mention is one place in a file that names a version.
type mention struct {
	file, version string
	// page means that the file is a page, which names the last release.
	page bool
	// from and to are the position of the version.
	from, to int
}

// findMentions returns the places of a clone that name a version, and the texts of their files.
func findMentions(dir string) (found []mention, texts map[string]string, err error) {
	texts = map[string]string{}
	for _, m := range mentions {
		paths, err := filepath.Glob(filepath.Join(dir, filepath.FromSlash(m.files)))
		if err != nil {
			return nil, nil, err
		}
		pattern := regexp.MustCompile("(?m)" + strings.ReplaceAll(m.pattern, "N.N.N", numbers))
		for _, path := range paths {
			raw, err := os.ReadFile(path)
			if err != nil {
				return nil, nil, err
			}
			name, err := filepath.Rel(dir, path)
			if err != nil {
				return nil, nil, err
			}
			name = filepath.ToSlash(name)
			texts[name] = string(raw)
			for _, at := range pattern.FindAllStringSubmatchIndex(texts[name], -1) {
				from, to := group(at)
				found = append(found, mention{name, texts[name][from:to], m.page, from, to})
			}
		}
	}
	return found, texts, nil
}

// group returns the position of the only group that matched.
func group(at []int) (from, to int) {
	for i := 2; i < len(at); i += 2 {
		if at[i] >= 0 {
			return at[i], at[i+1]
		}
	}
	return at[0], at[0]
}

// prepare prepares the files of a clone for a version. For a release, the unreleased changes become the section of the version, all
// mentions name the version, and the facts about its operator are stored for later commits. For a development version, all mentions except
// those in pages name it. On an error it changes nothing. It returns the names of the written files.
func prepare(dir, version, date string) ([]string, error) {
	next := semver.Prerelease(version) == development
	if semver.Canonical(version) != version || version == "" || semver.Prerelease(version) != "" && !next {
		return nil, fmt.Errorf("version %q: want a full semantic version with a leading v, such as v0.2.0, or a development version, such as "+
			"v0.3.0-dev; a pre-release needs no preparation", version)
	}
	if !regexp.MustCompile(`^\d{4}-\d{2}-\d{2}$`).MatchString(date) {
		return nil, fmt.Errorf("date %q: want YYYY-MM-DD", date)
	}
	raw, err := os.ReadFile(filepath.Join(dir, changelogFile))
	if err != nil {
		return nil, err
	}
	found, texts, err := findMentions(dir)
	if err != nil {
		return nil, err
	}
	written := map[string]string{}
	if next {
		found = slices.DeleteFunc(found, func(m mention) bool { return m.page })
		err = above(version, releasedIn(string(raw)))
	} else {
		written[changelogFile], err = dated(string(raw), strings.TrimPrefix(version, "v"), date)
	}
	if err != nil {
		return nil, err
	}
	if !next {
		if written[factsOf(version)], err = facts(dir); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(found, func(a, b mention) int { return b.from - a.from }) // from the end, so that earlier positions stay valid
	for _, m := range found {
		text := texts[m.file]
		texts[m.file] = text[:m.from] + strings.TrimPrefix(version, "v") + text[m.to:]
		written[m.file] = texts[m.file]
	}
	return slices.Sorted(maps.Keys(written)), writeAll(dir, written)
}

// writeAll writes files of a clone, by their names.
func writeAll(dir string, texts map[string]string) error {
	for name, text := range texts {
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil { //nolint:gosec // files of a repository
			return err
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil { //nolint:gosec // files of a repository
			return err
		}
	}
	return nil
}

const unreleased = "## [Unreleased]\n"

// dated returns the changelog with its unreleased changes as the section of a version.
func dated(changelog, version, date string) (string, error) {
	section, ok := sectionOf(changelog, "Unreleased")
	if !ok || section == "" {
		return "", errors.New("CHANGELOG.md has nothing under ## [Unreleased]: there is nothing to release")
	}
	released := releasedIn(changelog)
	if err := above("v"+version, released); err != nil {
		return "", err
	}
	changelog = strings.Replace(changelog, unreleased, unreleased+"\n## ["+version+"] - "+date+"\n", 1)
	link := regexp.MustCompile(`(?m)^\[Unreleased\]: (.*)/compare/\S+$`)
	at := link.FindStringSubmatch(changelog)
	if at == nil {
		return "", errors.New("CHANGELOG.md has no link [Unreleased]: ADDRESS/compare/VERSION...HEAD")
	}
	own := "/releases/tag/v" + version
	if len(released) > 0 {
		own = "/compare/v" + released[0] + "...v" + version
	}
	links := "[Unreleased]: " + at[1] + "/compare/v" + version + "...HEAD\n[" + version + "]: " + at[1] + own
	return strings.Replace(changelog, at[0], links, 1), nil
}

// above returns an error if a version is not above all versions in the changelog.
func above(version string, released []string) error {
	for _, other := range released {
		if semver.Compare(version, "v"+other) <= 0 {
			return fmt.Errorf("CHANGELOG.md has %s already: want a version above it", other)
		}
	}
	return nil
}

// releasedIn returns the versions in a changelog, the newest first.
func releasedIn(changelog string) []string {
	var versions []string
	for _, h := range heading.FindAllStringSubmatch(changelog, -1) {
		if h[1] != "Unreleased" {
			versions = append(versions, h[1])
		}
	}
	return versions
}
