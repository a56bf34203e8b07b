// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"sigs.k8s.io/yaml"
)

// lintConfig is what .golangci.yaml says about the length of lines.
type lintConfig struct {
	Linters struct {
		Settings struct {
			LLL struct {
				LineLength int `json:"line-length"`
			} `json:"lll"`
		} `json:"settings"`
		Exclusions struct {
			Rules []struct {
				Path    string   `json:"path"`
				Source  string   `json:"source"`
				Linters []string `json:"linters"`
			} `json:"rules"`
		} `json:"exclusions"`
	} `json:"linters"`
}

// longLines returns the most that the linter allows, and what it excludes: paths and lines.
func longLines(t *testing.T) (most int, paths, lines []*regexp.Regexp) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, ".golangci.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var config lintConfig
	if err := yaml.Unmarshal(text, &config); err != nil {
		t.Fatal(err)
	}
	for _, rule := range config.Linters.Exclusions.Rules {
		switch {
		case !slices.Contains(rule.Linters, "lll"):
		case rule.Source != "":
			lines = append(lines, regexp.MustCompile(rule.Source))
		default:
			paths = append(paths, regexp.MustCompile(rule.Path))
		}
	}
	if most = config.Linters.Settings.LLL.LineLength; most == 0 || len(paths) == 0 || len(lines) == 0 {
		t.Fatalf("lines may have %d characters, but for %v and %v", most, paths, lines)
	}
	return most, paths, lines
}

// The linter refuses long lines too, minutes later.
func TestLinesOfCodeAreShort(t *testing.T) {
	most, excluded, longMay := longLines(t)
	matches := func(text string) func(*regexp.Regexp) bool {
		return func(pattern *regexp.Regexp) bool { return pattern.MatchString(text) }
	}
	seen := 0
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() && slices.Contains([]string{"bin", "dist", ".git"}, entry.Name()) {
			return fs.SkipDir
		}
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || slices.ContainsFunc(excluded, matches(path)) {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil || strings.Contains(string(text), "DO NOT EDIT") {
			return err
		}
		seen++
		number := 0
		for line := range strings.Lines(string(text)) {
			number++
			line = strings.TrimSuffix(line, "\n")
			if n := utf8.RuneCountInString(line); n > most && !slices.ContainsFunc(longMay, matches(line)) {
				t.Errorf("%s:%d has %d characters, more than %d", path, number, n, most)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if seen < 500 {
		t.Errorf("only %d files were looked at", seen)
	}
}
