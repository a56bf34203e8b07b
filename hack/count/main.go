// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Command count prints how many lines of Go were written by hand, by part of the repository: physical lines, comments and blank lines included, of the
// files that git knows. Tests and test utilities count apart, generated files do not count.
//
//	go run ./hack/count
package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"
)

// generated is the line that marks a generated file (https://go.dev/s/generatedcode).
var generated = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	files, err := exec.Command("git", "ls-files", "-z", "--", "*.go").Output()
	if err != nil {
		return fmt.Errorf("git ls-files: %w", err)
	}
	lines := map[string]int{}
	for _, file := range strings.Split(strings.TrimRight(string(files), "\x00"), "\x00") {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if !generated.Match(text) {
			lines[partOf(file)] += bytes.Count(text, []byte("\n"))
		}
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	operator := 0
	parts := make([]string, 0, len(lines))
	for part := range lines {
		parts = append(parts, part)
	}
	slices.Sort(parts)
	for _, part := range parts {
		fmt.Fprintf(w, "%d\t %s\n", lines[part], part)
		if part != "tests" && part != "hack" {
			operator += lines[part]
		}
	}
	fmt.Fprintf(w, "%d\t all but tests and hack\n", operator)
	return w.Flush()
}

// partOf is api, cmd, hack, tests, or a package below internal with the packages below it.
func partOf(file string) string {
	parts := strings.Split(path.Dir(file), "/")
	switch {
	case strings.HasSuffix(file, "_test.go"), parts[0] == "test":
		return "tests"
	case parts[0] == "internal" && len(parts) > 1:
		return "internal/" + parts[1]
	}
	return parts[0]
}
