// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// factsOf returns the path of the facts about the operator of a release. Later commits, which describe that release to users, are compared
// with it.
func factsOf(version string) string {
	return path.Join("test/install/testdata/releases", version+".yaml")
}

// known lists the flags, annotations and labels of an operator. Flags of its logger are not included, because they belong to a library.
type known struct {
	Flags       []string `json:"flags"`
	Annotations []string `json:"annotations"`
}

var (
	declaredFlag = regexp.MustCompile(`\b\w+\.\w+Var\(&?[\w.]+, "([a-z-]+)"`)
	annotation   = regexp.MustCompile(`"(trellis\.dev/[a-z0-9-]+)"`)
)

// facts reads the facts about the operator of a clone from its source: the flags that it declares, and the names of Trellis' own
// annotations and labels.
func facts(dir string) (string, error) {
	flags, annotations := map[string]bool{}, map[string]bool{}
	for folder, find := range map[string]struct {
		pattern *regexp.Regexp
		found   map[string]bool
	}{"internal/operator": {declaredFlag, flags}, "internal": {annotation, annotations}, "api": {annotation, annotations}} {
		err := filepath.WalkDir(filepath.Join(dir, folder), func(file string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
				return err
			}
			text, err := os.ReadFile(file)
			for _, match := range find.pattern.FindAllSubmatch(text, -1) {
				find.found[string(match[1])] = true
			}
			return err
		})
		if err != nil {
			return "", err
		}
	}
	text, err := yaml.Marshal(known{slices.Sorted(maps.Keys(flags)), slices.Sorted(maps.Keys(annotations))})
	return "# What the operator of this release knows, read from its source by make prepare-release.\n" + string(text), err
}
