// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Command count prints the number of hand-written lines of Go, by part of the repository: physical lines, including comments and blank
// lines, of the files in git. Tests and test utilities are counted separately; generated files are excluded. With -since, files that did
// not exist in that revision are counted separately, too: they are the features added since then.
//
//	go run ./hack/count [-since REVISION]
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/trellis-k8s/trellis/hack/git"
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
	since := flag.String("since", "", "revision; files that did not exist in it count apart, too")
	flag.Parse()
	files, err := names("ls-files", "-z", "--", "*.go")
	if err != nil {
		return err
	}
	added := map[string]bool{}
	if *since != "" {
		found, err := names("diff", "-z", "--name-only", "--diff-filter=A", "--find-renames=35%", "-l8000", *since, "--", "*.go")
		if err != nil {
			return err
		}
		for _, name := range found {
			added[name] = true
		}
	}
	lines := map[string]amount{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if !generated.Match(text) {
			lines[partOf(file)] = lines[partOf(file)].plus(bytes.Count(text, []byte("\n")), added[file])
		}
	}
	return report(lines, *since)
}

// names runs a command of Git and returns the names that it prints.
func names(args ...string) ([]string, error) {
	out, err := git.Run(context.Background(), "", args...)
	return strings.FieldsFunc(out, func(r rune) bool { return r == 0 }), err
}

// amount is a number of lines, and the number of those in added files.
type amount struct{ all, added int }

func (a amount) plus(lines int, added bool) amount {
	a.all += lines
	if added {
		a.added += lines
	}
	return a
}

func report(lines map[string]amount, since string) error {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	row := func(a amount, name string) {
		if since != "" {
			fmt.Fprintf(w, "%d\t%d\t %s\n", a.all, a.added, name)
			return
		}
		fmt.Fprintf(w, "%d\t %s\n", a.all, name)
	}
	if since != "" {
		fmt.Fprintf(w, "lines\tin files since %s\t\n", since)
	}
	var operator amount
	for _, part := range slices.Sorted(maps.Keys(lines)) {
		row(lines[part], part)
		if part != "tests" && part != "hack" {
			operator.all, operator.added = operator.all+lines[part].all, operator.added+lines[part].added
		}
	}
	row(operator, "all but tests and hack")
	return w.Flush()
}

// partOf returns the part of a file: api, cmd, hack, tests, or a package below internal including its subpackages.
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
